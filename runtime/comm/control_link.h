// A rank's side of the conversation with the judge. Every request waits for its reply and throws
// the CommError that the reply carries; a broken connection is one too.
#pragma once

#include "runtime/comm/judge.h"
#include "runtime/comm/transport.h"

namespace s2t {

// Where the judge listens; in the environment "host:port:token".
struct ControlAddress {
  std::string host;
  int port = 0;
  std::string token;
};
std::string to_string(const ControlAddress& address);
ControlAddress parse_control_address(const std::string& text);  // throws CommError(transport)

class ControlLink final : public Peers {
 public:
  ControlLink(const ControlAddress& address, const Place& place);

  size_t create_group(const std::string& name, const std::vector<Rank>& ranks);
  void collective(const GroupPlace& group, const Annotation& annotation, const Call& call);
  void messages(const GroupPlace& group, const Annotation& annotation, std::span<const Call> calls);
  void fail(const CommError& error, const Annotation& next);  // never throws
  void finish(const std::string& result);
  void leave();                              // never throws
  void check_alive(const Annotation& next);  // also tells what this rank comes to

  void put(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  void check_alive() override;

 private:
  Packet ask(const Packet& request);

  Descriptor connection_;
};

}  // namespace s2t
