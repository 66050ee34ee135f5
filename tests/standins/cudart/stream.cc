// Streams, events and host functions.
#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include "tests/standins/cudart/state.h"

namespace s2t::standin {

struct Stream::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  uint64_t pushed = 0;
  uint64_t finished = 0;
  bool closed = false;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return closed || !work.empty(); });
      if (work.empty()) return;
      auto next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      next();
      next = nullptr;  // what it holds is released before anybody sees it finished
      lock.lock();
      ++finished;
      changed.notify_all();
    }
  }
};

namespace {

struct Registry {
  std::mutex mutex;
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Stream>> leaving;  // destroyed with work that has not ended
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

std::shared_ptr<Stream> default_stream() {
  static auto* instance = new std::shared_ptr<Stream>(new Stream(true));
  return *instance;
}

std::vector<std::shared_ptr<Stream>> live_streams() {
  std::lock_guard lock(registry().mutex);
  std::vector<std::shared_ptr<Stream>> result = registry().leaving;
  for (const auto& [handle, stream] : registry().streams) result.push_back(stream);
  return result;
}

void push_wait(Stream& waiter, std::shared_ptr<Stream> on, uint64_t ticket) {
  if (on->done(ticket)) return;
  waiter.push([on = std::move(on), ticket] { on->wait(ticket); });
}

// The legacy default stream waits for all blocking streams, and they wait for it.
void order_with_default(Stream& stream) {
  const auto legacy = default_stream();
  if (&stream != legacy.get()) {
    if (stream.blocking()) push_wait(stream, legacy, legacy->last_ticket());
    return;
  }
  for (const auto& other : live_streams()) {
    if (other->blocking()) push_wait(stream, other, other->last_ticket());
  }
}

// One enqueue at a time, so that two streams cannot come to wait for each other.
std::mutex& enqueue_mutex() {
  static auto* instance = new std::mutex;
  return *instance;
}

cudaError_t enqueue_ticket(cudaStream_t handle, std::function<void()> work, uint64_t* ticket,
                           std::shared_ptr<Stream>* where) {
  if (const cudaError_t error = usable()) return error;
  *where = find_stream(handle);
  if (!*where) return fail(cudaErrorInvalidResourceHandle);
  std::lock_guard lock(enqueue_mutex());
  order_with_default(**where);
  *ticket = (*where)->push(std::move(work));
  return cudaSuccess;
}

}  // namespace

Stream::Queue& Stream::queue() {
  std::call_once(started_, [this] {
    queue_ = std::shared_ptr<Queue>(new Queue);
    std::thread([keep = queue_] { keep->run(); }).detach();
  });
  return *queue_;
}

uint64_t Stream::push(std::function<void()> work) {
  Queue& q = queue();
  std::lock_guard lock(q.mutex);
  q.work.push_back(std::move(work));
  q.changed.notify_all();
  return ++q.pushed;
}

uint64_t Stream::last_ticket() {
  std::lock_guard lock(queue().mutex);
  return queue_->pushed;
}

bool Stream::done(uint64_t ticket) {
  std::lock_guard lock(queue().mutex);
  return queue_->finished >= ticket;
}

void Stream::wait(uint64_t ticket) {
  Queue& q = queue();
  std::unique_lock lock(q.mutex);
  q.changed.wait(lock, [&] { return q.finished >= ticket; });
}

Stream::~Stream() {
  Queue& q = queue();
  std::lock_guard lock(q.mutex);
  q.closed = true;  // the worker finishes what is queued, then ends
  q.changed.notify_all();
}

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream();
  std::lock_guard lock(registry().mutex);
  const auto found = registry().streams.find(handle);
  return found == registry().streams.end() ? nullptr : found->second;
}

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  uint64_t ticket;
  std::shared_ptr<Stream> stream;
  return enqueue_ticket(handle, std::move(work), &ticket, &stream);
}

cudaError_t enqueue_and_wait(cudaStream_t handle, std::function<void()> work) {
  uint64_t ticket;
  std::shared_ptr<Stream> stream;
  const cudaError_t error = enqueue_ticket(handle, std::move(work), &ticket, &stream);
  if (error == cudaSuccess) stream->wait(ticket);
  return error;
}

void drain_all() {
  auto streams = live_streams();
  streams.push_back(default_stream());
  for (const auto& stream : streams) stream->wait(stream->last_ticket());
}

}  // namespace s2t::standin

using namespace s2t::standin;

// An event is the ticket of the stream at the time of the last record.
struct CUevent_st {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
  std::shared_ptr<double> milliseconds = std::make_shared<double>(0);
};

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int) {
  if (const cudaError_t error = usable()) return error;
  auto stream = std::make_shared<Stream>((flags & cudaStreamNonBlocking) == 0);
  *handle = reinterpret_cast<cudaStream_t>(stream.get());
  std::lock_guard lock(registry().mutex);
  registry().streams[*handle] = std::move(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return cudaStreamCreateWithPriority(handle, 0, 0);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return usable();
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::lock_guard lock(registry().mutex);
  auto node = registry().streams.extract(handle);
  if (node.empty()) return fail(cudaErrorInvalidResourceHandle);
  auto& leaving = registry().leaving;
  std::erase_if(leaving, [](const auto& s) { return s->done(s->last_ticket()); });
  leaving.push_back(std::move(node.mapped()));  // whoever waits for the device waits for it too
  return usable();
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const cudaError_t error = enqueue_and_wait(handle, [] {});
  return error ? error : usable();
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  return stream->done(stream->last_ticket()) ? usable() : cudaErrorNotReady;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return enqueue(handle, [function, data] { function(data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = usable()) return error;
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  auto stamp = [slot = event->milliseconds] {
    using namespace std::chrono;
    *slot = duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
  };
  return enqueue_ticket(handle, stamp, &event->ticket, &event->stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  if (!event->stream) return usable();  // never recorded: nothing to wait for
  return enqueue(handle, [on = event->stream, ticket = event->ticket] { on->wait(ticket); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream) event->stream->wait(event->ticket);
  return usable();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return !event->stream || event->stream->done(event->ticket) ? usable() : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->stream || !end->stream) return fail(cudaErrorInvalidResourceHandle);
  if (cudaEventQuery(start) || cudaEventQuery(end)) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(*end->milliseconds - *start->milliseconds);
  return cudaSuccess;
}

}  // extern "C"
