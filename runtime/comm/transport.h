// What a loadable module must provide: the movement of data, and nothing else.
//
// Known here: one process is one rank; a group's channel carries calls that its members have
// already agreed upon (judge.h), so a channel never checks them. Not known here: worlds, faults,
// recording, launching. The interface crosses dlopen inside one build; `kModuleAbi` guards it.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "runtime/comm/backend.h"

namespace s2t {

// Where this process stands among the ranks.
struct Place {
  Rank rank;
  int size = 1;
  int local_rank = 0;  // among the ranks of this machine
  int local_size = 1;
  std::chrono::milliseconds timeout{30'000};
};

// How ranks that cannot talk yet tell each other small things, and learn that a run is dead.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual void put(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key) = 0;  // waits until somebody has put it
  virtual void check_alive() = 0;                       // throws CommError if the run is dead
};

struct GroupPlace {
  std::string name;
  std::vector<Rank> ranks;
  size_t index = 0;  // unique, the same on all members
  int position = 0;  // this rank's
};

class Channel {
 public:
  virtual ~Channel() = default;
  // False if this channel has no way of its own: the default built on messages is used then.
  virtual bool collective(const Call& call, const Annotation& annotation) = 0;
  virtual void messages(std::span<const Call> calls, const Annotation& annotation) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual Device& device() = 0;
  virtual std::unique_ptr<Channel> open(const GroupPlace& group) = 0;  // members only, same order
  virtual void close() = 0;  // the orderly end, when all channels are gone; not after a failure
};

constexpr int kModuleAbi = 1;

extern "C" {
using ModuleAbi = int (*)();                              // s2t_module_abi
using ModuleProbe = void (*)(Probe* out);                 // s2t_module_probe
using ModuleOpen = Transport* (*)(const Place*, Peers*);  // s2t_module_open; owned by the caller
}

}  // namespace s2t
