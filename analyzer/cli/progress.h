// One line on a terminal while something takes long: what is being done, and for how many seconds.
//
// Shown from the second second on and wiped out at the end; where standard error is no terminal,
// nothing is ever written. S2T_PROGRESS=always shows it there too, line by line.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace s2t {

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& doing);
  void stop();  // wipes the line out; nothing is shown any more

 private:
  void show_until_done();

  bool terminal_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string doing_;
  bool done_ = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace s2t
