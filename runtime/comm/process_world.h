// A rank that is a process: every call is announced to the judge, then made on the transport.
#pragma once

#include "runtime/comm/control_link.h"

namespace s2t {

class ProcessWorld final : public World {
 public:
  ProcessWorld(const Place& place, ControlLink& link, Transport& transport)
      : place_(place), link_(link), transport_(transport) {}

  Rank rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  Device& device() override { return transport_.device(); }
  std::unique_ptr<Communicator> create_group(const std::string& name,
                                             const std::vector<Rank>& ranks) override;
  void abort(const std::string& reason) override;
  void check_alive() override { link_.check_alive(annotation_); }
  void annotate(Annotation annotation) override { annotation_ = std::move(annotation); }
  const Annotation& annotation() const override { return annotation_; }

 private:
  const Place place_;
  ControlLink& link_;
  Transport& transport_;
  Annotation annotation_;
};

}  // namespace s2t
