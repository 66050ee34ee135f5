// Frames over a TCP connection, and the bytes inside them.
//
// Known here: how a few numbers and strings become one frame and come back. Not known here: what
// any frame means. Both ends are the same build on the same kind of machine, so numbers travel as
// they lie in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/comm/error.h"

namespace s2t {

class Packet {
 public:
  Packet() = default;
  explicit Packet(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  Packet& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Packet& put_text(const std::string& text);
  template <class T>
  Packet& put_list(const std::vector<T>& list) {
    put<uint64_t>(list.size());
    for (const T& x : list) put(x);
    return *this;
  }

  // Reading past the end throws CommError(transport).
  template <class T>
  T get() {
    T value;
    std::memcpy(static_cast<void*>(&value), take(sizeof value), sizeof value);
    return value;
  }
  std::string get_text();
  template <class T>
  std::vector<T> get_list() {
    std::vector<T> list(get_length(sizeof(T)));
    for (T& x : list) x = get<T>();
    return list;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  const char* take(size_t size);
  uint64_t get_length(size_t element_bytes);

  std::string bytes_;
  size_t read_ = 0;
};

// One open file descriptor with one owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close();
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// False / nullopt when the other side is gone, or, if it is a stranger, sends more than `largest`
// bytes. std::bad_alloc if there is no memory for a frame.
bool send_frame(const Descriptor& to, const Packet& packet);
std::optional<Packet> receive_frame(const Descriptor& from, uint64_t largest = UINT64_MAX);

bool readable(const Descriptor& from, std::chrono::milliseconds patience);
void limit_receive(const Descriptor& from, std::chrono::seconds patience);  // 0: no limit

struct Listener {
  Descriptor socket;
  int port = 0;
};
// All throw CommError(transport). Port 0 lets the system choose; `any` listens beyond this machine.
Listener listen_on(bool any, int port);
Descriptor connect_to(const std::string& host, int port, std::chrono::milliseconds patience);

// The next connection, or nothing after `patience`.
std::optional<Descriptor> accept_from(const Descriptor& listener,
                                      std::chrono::milliseconds patience);

}  // namespace s2t
