#pragma once

#include <c10/core/StorageImpl.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "executor/payload_store.h"

namespace tl::lt {

/// Moves payloads from the store to a sink while the model runs, through a queue of at most `SaveRules::queue_bytes`
/// (or one payload, where a single one is larger). All members are called by the thread that runs the model; the sink
/// by a thread of this object, or right away where SaveRules::sink_inline says so.
class PayloadStream {
 public:
  /// `wait` is called now and then while the queue is full; what it throws ends the wait.
  PayloadStream(PayloadStore& store, const SaveRules& rules, std::function<void()> wait);
  /// Drops what still waits.
  ~PayloadStream();
  PayloadStream(const PayloadStream&) = delete;
  PayloadStream& operator=(const PayloadStream&) = delete;

  /// Hands a payload over, unless it was before. Blocks while the queue is full. Throws what the sink threw.
  void offer(std::uint32_t payload);
  /// The model is about to write to `storage`: payloads there that wait are moved to memory of their own, one that is
  /// being written is waited for. To be called before PayloadStore::preserve and move_payloads.
  void before_write(c10::StorageImpl* storage);
  /// Waits until the sink has everything. Throws what it threw.
  void finish();

 private:
  struct Waiting {
    std::uint32_t payload = 0;
    std::size_t bytes = 0;
    PayloadFacts facts;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    TensorRefPtr tensor;
  };

  Waiting waiting_of(std::uint32_t payload) const;
  void write(const Waiting& waiting);
  void work();
  void release_written();
  void rethrow();

  PayloadStore& store_;
  PayloadSink& sink_;
  bool inline_;
  std::size_t bound_;
  std::function<void()> wait_;
  std::uint32_t next_ = 0;  ///< payloads below were offered

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;  ///< in order of payload
  std::size_t queued_bytes_ = 0;
  bool busy_ = false;
  std::uint32_t busy_with_ = 0;
  std::vector<Waiting> written_;  ///< their memory is let go of by the thread that runs the model
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tl::lt
