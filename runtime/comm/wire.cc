#include "runtime/comm/wire.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <thread>

namespace s2t {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw CommError(CommReason::transport, fmt::format("{}: {}", what, std::strerror(error)));
}

bool send_all(int fd, const char* data, size_t size) {
  while (size != 0) {
    const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, char* data, size_t size) {
  while (size != 0) {
    const ssize_t got = ::recv(fd, data, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void send_small_frames_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// A connected socket, or the errno of the last address tried.
Descriptor try_connect(const addrinfo* addresses, int& error) {
  for (const addrinfo* a = addresses; a != nullptr; a = a->ai_next) {
    Descriptor fd(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (fd.open() && ::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) return fd;
    error = errno;
  }
  return {};
}

}  // namespace

Packet& Packet::put_text(const std::string& text) {
  put<uint64_t>(text.size());
  bytes_ += text;
  return *this;
}

std::string Packet::get_text() {
  const uint64_t size = get_length(1);
  return {take(size), size};
}

const char* Packet::take(size_t size) {
  if (size > bytes_.size() - read_)
    throw CommError(CommReason::transport, "a control message is shorter than it says");
  const char* at = bytes_.data() + read_;
  read_ += size;
  return at;
}

uint64_t Packet::get_length(size_t element_bytes) {
  const auto length = get<uint64_t>();
  if (length > (bytes_.size() - read_) / element_bytes)
    throw CommError(CommReason::transport, "a control message is shorter than it says");
  return length;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool send_frame(const Descriptor& to, const Packet& packet) {
  std::string frame;
  const uint64_t size = packet.bytes().size();
  frame.append(reinterpret_cast<const char*>(&size), sizeof size);
  frame += packet.bytes();
  return send_all(to.get(), frame.data(), frame.size());
}

std::optional<Packet> receive_frame(const Descriptor& from, uint64_t largest) {
  uint64_t size = 0;
  if (!receive_all(from.get(), reinterpret_cast<char*>(&size), sizeof size)) return std::nullopt;
  if (size > largest) return std::nullopt;
  if (size > std::string().max_size()) throw std::bad_alloc();
  std::string bytes(size, '\0');
  if (!receive_all(from.get(), bytes.data(), size)) return std::nullopt;
  return Packet(std::move(bytes));
}

bool readable(const Descriptor& from, std::chrono::milliseconds patience) {
  pollfd waiting{from.get(), POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(patience.count())) > 0;
}

void limit_receive(const Descriptor& from, std::chrono::seconds patience) {
  timeval limit{};
  limit.tv_sec = patience.count();
  setsockopt(from.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

Listener listen_on(bool any, int port) {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.open()) fail("no control socket", errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(any ? INADDR_ANY : INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (::bind(fd.get(), generic, length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(fd.get(), generic, &length) != 0)
    fail(fmt::format("cannot listen on port {}", port), errno);
  return {std::move(fd), ntohs(address.sin_port)};
}

Descriptor connect_to(const std::string& host, int port, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const std::string what = fmt::format("cannot reach rank 0 at {}:{}", host, port);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int e = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); e != 0)
    throw CommError(CommReason::transport, fmt::format("{}: {}", what, gai_strerror(e)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  for (;;) {
    int error = 0;
    Descriptor fd = try_connect(addresses.get(), error);
    if (fd.open()) {
      send_small_frames_at_once(fd.get());
      return fd;
    }
    if (std::chrono::steady_clock::now() >= deadline) fail(what, error);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // rank 0 may start later
  }
}

std::optional<Descriptor> accept_from(const Descriptor& listener,
                                      std::chrono::milliseconds patience) {
  if (!readable(listener, patience)) return std::nullopt;
  Descriptor fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.open()) return std::nullopt;
  send_small_frames_at_once(fd.get());
  return fd;
}

}  // namespace s2t
