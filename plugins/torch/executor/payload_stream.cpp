#include "executor/payload_stream.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tl::lt {

PayloadStream::PayloadStream(PayloadStore& store, const SaveRules& rules, std::function<void()> wait)
    : store_(store), sink_(*rules.sink), inline_(rules.sink_inline), bound_(rules.queue_bytes), wait_(std::move(wait)) {
  if (!inline_) thread_ = std::thread([this] { work(); });
}

PayloadStream::~PayloadStream() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

PayloadStream::Waiting PayloadStream::waiting_of(std::uint32_t payload) const {
  const PayloadId id{payload};
  Waiting waiting;
  waiting.payload = payload;
  waiting.bytes = store_.value_bytes(payload);
  waiting.facts = store_.facts(id);
  waiting.sizes.assign(waiting.facts.sizes.begin(), waiting.facts.sizes.end());
  waiting.strides.assign(waiting.facts.strides.begin(), waiting.facts.strides.end());
  waiting.tensor = store_.tensor(id);
  return waiting;
}

void PayloadStream::write(const Waiting& waiting) {
  auto facts = waiting.facts;  // the pools that it points into grow while the model runs
  facts.sizes = waiting.sizes;
  facts.strides = waiting.strides;
  sink_.write(waiting.payload, facts, *waiting.tensor);
}

void PayloadStream::offer(std::uint32_t payload) {
  if (payload < next_) return;
  next_ = payload + 1;
  if (inline_) {
    const at::DisableRecordFunctionGuard quiet;
    write(waiting_of(payload));
    store_.release(payload);
    return;
  }
  auto waiting = waiting_of(payload);
  {
    std::unique_lock lock(mutex_);
    while (!failure_ && queued_bytes_ > 0 && queued_bytes_ + waiting.bytes > bound_) {
      if (changed_.wait_for(lock, std::chrono::milliseconds(50)) != std::cv_status::timeout || !wait_) continue;
      lock.unlock();
      wait_();
      lock.lock();
    }
    queued_bytes_ += waiting.bytes;
    queue_.push_back(std::move(waiting));
  }
  changed_.notify_all();
  release_written();
  rethrow();
}

void PayloadStream::before_write(c10::StorageImpl* storage) {
  if (inline_ || !store_.holds(storage)) return;
  release_written();
  const auto members = store_.payloads_of(storage);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_ || std::ranges::find(members, busy_with_) == members.end(); });
  std::vector<Waiting*> moved;
  for (const auto payload : members) {
    const auto found = std::ranges::lower_bound(queue_, payload, {}, &Waiting::payload);
    if (found != queue_.end() && found->payload == payload) moved.push_back(&*found);
  }
  if (moved.empty()) return;
  store_.preserve(storage);
  for (auto* waiting : moved) *waiting = waiting_of(waiting->payload);
}

void PayloadStream::finish() {
  if (!inline_) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || (queue_.empty() && !busy_); });
  }
  release_written();
  rethrow();
}

void PayloadStream::work() {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard quiet;  // packing a value is no call of the model
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    auto waiting = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    busy_with_ = waiting.payload;
    lock.unlock();
    std::exception_ptr failure;
    try {
      write(waiting);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    queued_bytes_ -= waiting.bytes;
    written_.push_back(std::move(waiting));
    if (failure) {
      failure_ = failure;
      queue_.clear();
      queued_bytes_ = 0;
    }
    changed_.notify_all();
    if (failure) return;
  }
}

void PayloadStream::release_written() {
  std::vector<Waiting> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(written_);
  }
  for (const auto& waiting : done) store_.release(waiting.payload);
}

void PayloadStream::rethrow() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace tl::lt
