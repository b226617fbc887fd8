#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tl {

namespace detail {

/// Work items handed out to several threads, and the first of them that failed.
class WorkQueue {
 public:
  explicit WorkQueue(std::size_t count) : count_(count) {}

  template <typename Work>
  void run(unsigned threads, const Work& work) {
    std::vector<std::thread> others;
    others.reserve(threads);
    try {
      while (others.size() + 1 < threads && others.size() + 1 < count_) others.emplace_back([&] { take(work); });
    } catch (const std::system_error&) {  // no more threads are allowed: fewer do it too
    }
    take(work);
    for (auto& other : others) other.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  /// Calls work(i) for items that no other thread has taken.
  template <typename Work>
  void take(const Work& work) {
    for (std::size_t i = next_++; i < count_ && i < failed_; i = next_++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i < failed_) {
          failed_ = i;
          error_ = std::current_exception();
        }
      }
    }
  }

  std::size_t count_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> failed_{std::numeric_limits<std::size_t>::max()};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace detail

/// Calls work(i) for every i below `count`, on up to `threads` threads of which the caller's is one, and throws what
/// the first item that failed threw: which one that is does not depend on the threads. Items after it may be left out.
template <typename Work>
void for_each_parallel(std::size_t count, unsigned threads, const Work& work) {
  detail::WorkQueue(count).run(threads, work);
}

}  // namespace tl
