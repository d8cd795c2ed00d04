#include "http/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace trainyard::http {

namespace asio = boost::asio;
using boost::system::error_code;

struct Loop::Context {
  asio::io_context io{1};  // One thread runs it; others only post.
  asio::executor_work_guard<asio::io_context::executor_type> open{io.get_executor()};
};

Loop::Loop()
    : context_(std::make_unique<Context>()),
      scratch_(std::make_unique_for_overwrite<char[]>(kScratchSize)) {}

Loop::~Loop() = default;

void Loop::run() { context_->io.run(); }

void Loop::stop() { context_->io.stop(); }

void Loop::post(std::function<void()> work) { asio::post(context_->io, std::move(work)); }

void Loop::after(milliseconds delay, std::function<void()> work) {
  auto timer = std::make_unique<asio::steady_timer>(context_->io, delay);
  asio::steady_timer& waiting = *timer;
  waiting.async_wait([timer = std::move(timer), work = std::move(work)](error_code error) {
    if (!error) work();
  });
}

struct Watch::Descriptor {
  asio::posix::stream_descriptor stream;
};

Watch::Watch(Loop& loop, Fd fd)
    : fd_(fd.get()),
      descriptor_(std::make_unique<Descriptor>(
          asio::posix::stream_descriptor(loop.context_->io, fd.release()))) {}

Watch::~Watch() = default;

void Watch::when_readable(std::function<void()> work) {
  descriptor_->stream.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [work = std::move(work)](error_code error) {
                                   if (!error) work();
                                 });
}

void Watch::when_writable(std::function<void()> work) {
  descriptor_->stream.async_wait(asio::posix::stream_descriptor::wait_write,
                                 [work = std::move(work)](error_code error) {
                                   if (!error) work();
                                 });
}

void Watch::close() {
  fd_ = -1;
  error_code ignored;
  descriptor_->stream.close(ignored);
}

}  // namespace trainyard::http
