// A pipeline timeline for people and for trace viewers.
//
// Reads a Timeline and nothing else; the same timeline gives the same bytes. Not known here: how a
// schedule is made, and files.
#pragma once

#include <string>

#include "analyzer/program/timeline.h"

namespace s2t {

// How much of a long timeline the text shows before it says what is left out.
struct TimelineTextLimits {
  int columns = 100;  // of the terminal, at least 90
  int panels = 3;     // stretches of time, one below the other
  int ranks = 32;
  int order_lines = 4;  // per rank and phase
};

// A grid of forwards and backwards over time, a table of numbers per rank, and each rank's order
// with its sends and receives, by phase.
std::string timeline_text(const Timeline& timeline, const TimelineTextLimits& limits = {});

// Everything, as "shape2trace.schedule/1".
std::string timeline_json(const Timeline& timeline);

// Trace Event Format for Perfetto and chrome://tracing: one process per rank, a thread for
// computing and one for each kind of message, a flow arrow per message, a counter of activations.
// Metadata first, the rest by time; process n + 1 is rank n (Perfetto keeps 0 for itself).
// One unit (1 F or 1 ms) is one millisecond of the trace; a message of no cost is drawn 1 us long.
std::string timeline_chrome(const Timeline& timeline);

// One self-contained <svg> element, legible on light and dark ground and without colour.
std::string timeline_svg(const Timeline& timeline);

// "33", "28.5", "0.333": at most three decimals.
std::string timeline_number(double x);

// "1f1b: 4 pipeline ranks, 8 microbatches; makespan 33 F, ideal 24 F; bubble 37.5 % of the ideal, ..."
std::string timeline_summary(const Timeline& timeline);

}  // namespace s2t
