#include "runtime/comm/control_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

namespace s2t {
namespace {

Packet request(Request r) {
  Packet p;
  p.put(r);
  return p;
}

Packet announcement(Request r, const GroupPlace& group, const Annotation& annotation) {
  Packet p = request(r);
  p.put_text(annotation.phase).put_text(annotation.label).put(group.index).put(group.position);
  return p;
}

}  // namespace

std::string to_string(const ControlAddress& a) {
  return fmt::format("{}:{}:{}", a.host, a.port, a.token);
}

ControlAddress parse_control_address(const std::string& text) {
  const size_t second = text.rfind(':');
  const size_t first = second == std::string::npos ? second : text.rfind(':', second - 1);
  ControlAddress a;
  if (first != std::string::npos) {
    a.host = text.substr(0, first);
    a.token = text.substr(second + 1);
    std::from_chars(text.data() + first + 1, text.data() + second, a.port);
  }
  if (a.port == 0) throw CommError(CommReason::transport, "no control address: " + text);
  return a;
}

ControlLink::ControlLink(const ControlAddress& address, const Place& place)
    : connection_(connect_to(address.host, address.port, place.timeout)) {
  Packet hello = request(Request::hello);
  ask(hello.put_text(address.token).put(place.rank).put(place.size).put(::getpid()));
}

Packet ControlLink::ask(const Packet& p) {
  std::optional<Packet> reply;
  if (send_frame(connection_, p)) reply = receive_frame(connection_);
  if (!reply) throw CommError(CommReason::died, "the process that watches the ranks is gone");
  if (reply->get<uint8_t>() == 0) throw get_error(*reply);
  return *reply;
}

size_t ControlLink::create_group(const std::string& name, const std::vector<Rank>& ranks) {
  Packet p = request(Request::create_group);
  return ask(p.put_text(name).put_list(ranks)).get<size_t>();
}

void ControlLink::collective(const GroupPlace& group, const Annotation& annotation,
                             const Call& call) {
  Packet p = announcement(Request::collective, group, annotation);
  put_call(p, call);
  ask(p);
}

void ControlLink::messages(const GroupPlace& group, const Annotation& annotation,
                           std::span<const Call> calls) {
  Packet p = announcement(Request::messages, group, annotation);
  p.put(calls.size());
  for (const Call& call : calls) put_call(p, call);
  ask(p);
}

void ControlLink::fail(const CommError& error, const Annotation& next) {
  Packet p = request(Request::fail);
  put_error(p, error);
  p.put_text(next.phase).put_text(next.label);
  try {
    ask(p);
  } catch (const CommError&) {  // whoever would hear it is gone already
  }
}

void ControlLink::finish(const std::string& result) {
  ask(request(Request::finish).put_text(result));
}

void ControlLink::leave() {
  try {
    ask(request(Request::leave));
  } catch (const CommError&) {  // the run has been reported already
  }
}

void ControlLink::put(const std::string& key, const std::string& value) {
  ask(request(Request::put).put_text(key).put_text(value));
}

std::string ControlLink::get(const std::string& key) {
  return ask(request(Request::get).put_text(key)).get_text();
}

void ControlLink::check_alive() {
  ask(request(Request::check_alive));
}

void ControlLink::check_alive(const Annotation& next) {
  ask(request(Request::come_to).put_text(next.phase).put_text(next.label));
}

}  // namespace s2t
