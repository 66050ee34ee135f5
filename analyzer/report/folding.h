// Which ops of a graph are drawn, and which drawn op stands for each of the others.
//
// Drawn once are stages that are alike, if only but for how many layers they have, and, within a
// stage, blocks of ops that are alike in kind, shapes, layouts and collectives. Not known here:
// boxes and arrows.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/report/diagram.h"
#include "analyzer/report/fold.h"
#include "analyzer/report/marks.h"

namespace s2t {

class Folding {
 public:
  // `program` and `marks` must outlive it.
  Folding(const Program& program, const Marks& marks, std::vector<int32_t> ops);

  int32_t stands_for(int32_t op) const { return stands_for_[static_cast<size_t>(op)]; }
  bool drawn(int32_t op) const { return stands_for(op) == op; }
  int frame(int32_t op) const { return frame_[static_cast<size_t>(op)]; }
  int stage_frame(int32_t op) const { return stage_frame_[static_cast<size_t>(op)]; }
  const std::vector<int32_t>& ops() const { return ops_; }
  const std::vector<Frame>& frames() const { return frames_; }
  bool shown(int32_t op) const { return places_.contains(op); }

 private:
  // Places in ops_, in order: runs of alike layers, and between them what runs once.
  using Stage = std::vector<Run>;
  struct Alikes {
    std::vector<Stage> stages;  // the first is drawn
    bool even() const;          // all of the same length
  };

  void look(size_t place);
  bool alike(size_t i, size_t j) const;
  Stage stage_of(size_t begin, size_t end) const;
  bool same_stage(const Stage& a, const Stage& b) const;
  void fold_stages();
  void fold_stage(const Alikes& alikes);
  void fold_run(const Run& run, int outer, const std::string& title);
  void frame_layers(const Run& once, int outer);
  void replace(size_t place, size_t by);
  std::string stage_title(const Alikes& alikes) const;
  std::string run_title(const Alikes& alikes, size_t piece) const;

  const PictureOp& at(size_t place) const { return picture_.ops[static_cast<size_t>(ops_[place])]; }
  const PictureValue& value(int32_t v) const { return picture_.values[static_cast<size_t>(v)]; }
  int& frame_of(size_t place) { return frame_[static_cast<size_t>(ops_[place])]; }

  const GraphPicture& picture_;
  const Marks& marks_;
  bool staged_;
  std::vector<int32_t> ops_;
  std::map<int32_t, size_t> places_;  // op -> place in ops_
  std::map<std::string, size_t> seen_;
  std::vector<size_t> looks_;  // by place
  std::vector<int32_t> stands_for_;
  std::vector<int> frame_, stage_frame_;
  std::vector<Frame> frames_;
};

}  // namespace s2t
