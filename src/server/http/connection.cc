// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "os/clock.h"
#include "os/log.h"

namespace quern::server {
namespace {

using Code = boost::system::error_code;
constexpr auto kTuple = asio::as_tuple(kAwait);

// Heads are small and JSON often is; a longer JSON gets a buffer of its own.
constexpr size_t kPeek = 16 * kKiB;
// What a refused request may still send before it costs the connection.
constexpr uint64_t kMostDrained = kMiB;
constexpr size_t kKeptCapacity = kMiB;
// Nobody knows what is still to come of this request.
constexpr uint64_t kUnknown = ~uint64_t{0};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n", kVersion10 = "HTTP/1.0 ";

// Drops what is done from the front of a buffer sequence.
template <class Buffer>
std::span<Buffer> skip_front(std::span<Buffer> buffers, size_t done) {
  while (!buffers.empty() && done >= buffers.front().size()) {
    done -= buffers.front().size();
    buffers = buffers.subspan(1);
  }
  if (!buffers.empty()) buffers.front() += done;
  return buffers;
}

// The first of `buffers`, at most `most` bytes of them. One that is longer than that alone is cut, in `cut`.
template <class Buffer>
std::span<Buffer> first_of(std::span<Buffer> buffers, size_t most, Buffer& cut) {
  if (buffers.front().size() > most) {
    cut = Buffer(buffers.front().data(), most);
    return {&cut, 1};
  }
  size_t count = 0;
  while (count < buffers.size() && buffers[count].size() <= most) most -= buffers[count++].size();
  return buffers.first(count);
}

bool would_block(const Code& ec) { return ec == asio::error::would_block || ec == asio::error::try_again; }

void append_number(std::string& out, uint64_t value) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace

void Signal::set() {
  if (!waiter_) {
    is_set_ = true;
    return;
  }
  std::exchange(waiter_, nullptr)->resume();
}

Task<> Signal::wait() {
  if (!is_set_) {
    auto token = kAwait;
    co_await asio::async_initiate<asio::use_awaitable_t<Executor>, void()>(
        [this](auto handler) {
          using Handler = decltype(handler);
          struct Holder : Waiter {
            explicit Holder(Handler h) : handler(std::move(h)) {}
            void resume() override { handler(); }
            Handler handler;
          };
          waiter_ = std::make_unique<Holder>(std::move(handler));
        },
        token);
  }
  is_set_ = false;
}

Connection::Connection(Shard& shard, Socket socket, bool is_refused)
    : shard_(shard),
      front_(shard.front),
      limits_(shard.front.config.limits),
      is_refused_(is_refused),
      buffer_size_(shard.front.config.limits.header_bytes + kPeek),
      buffer_(std::make_unique_for_overwrite<char[]>(buffer_size_)),
      socket_(std::move(socket)) {
  Code ignored;  // a socket that is gone already says so at the first read
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Connection::arm(Duration limit) { deadline_ = os::now() + limit; }

void Connection::disarm() {
  deadline_ = Time::never();
  has_timed_out_ = false;
}

void Connection::check_deadline(Time now) {
  check_caller(now);
  if (now < deadline_) return;
  deadline_ = Time::never();
  has_timed_out_ = true;
  Code ignored;
  socket_.cancel(ignored);
}

void Connection::set_idle(bool is_idle) {
  if (is_idle == is_idle_) return;
  is_idle_ = is_idle;
  auto& there = is_refused_ ? shard_.silent : shard_.idle;
  auto& from = is_idle ? place_ : there;
  auto& to = is_idle ? there : place_;
  to.splice(to.end(), from, at_);
}

void Connection::wind_down() {
  if (!is_idle_) return;
  set_idle(false);
  is_ending_ = true;
  Code ignored;
  socket_.cancel(ignored);
}

void Connection::abort() {
  is_ending_ = true;
  give_up();
  Code ignored;
  socket_.close(ignored);
}

bool Connection::keeps_alive() const { return wants_alive_ && !shard_.is_stopping && !is_refused_ && !is_ending_; }

Task<> Connection::run() {
  try {
    co_await serve_all();
  } catch (const std::exception& problem) {  // out of memory, in all likelihood
    os::log_error("server: a connection ended by an exception: {}", problem.what());
  }
  Code ignored;
  socket_.close(ignored);
  set_idle(false);
  // Its handler has a pointer to us.
  if (is_peeking_) co_await peek_signal_.wait();
}

Task<> Connection::serve_all() {
  for (;;) {
    const Io head = co_await read_head();
    if (head == Io::kClosed) co_return;
    const Then then = head == Io::kTimedOut ? co_await failed_read(head) : co_await serve();
    if (then == Then::kClose) co_return;
    if (answer_json_.capacity() > kKeptCapacity) std::string().swap(answer_json_);
    if (json_capacity_ > kKeptCapacity) json_buffer_.reset(), json_capacity_ = 0;
  }
}

void Connection::start_peek() {
  is_peeking_ = true;
  const size_t room = std::min(kPeek, buffer_size_ - filled_);
  socket_.async_receive(asio::buffer(buffer_.get() + filled_, room), MSG_PEEK, [this](Code ec, size_t size) {
    is_peeking_ = false;
    has_peeked_ = true;
    peek_error_ = ec;
    peeked_ = ec ? 0 : size;
    if (ec == asio::error::eof && is_waiting()) {
      // The caller sends no more. Whether it still listens, nobody knows until something is sent.
      ask_caller_at_ = os::now() + limits_.half_closed;
    } else if (ec && is_waiting() && !is_ending_) {
      give_up();
    }
    peek_signal_.set();
  });
}

void Connection::give_up() {
  has_gone_ = true;
  if (abandon_) (front_.daemon.*abandon_)(request_id_);
}

// A caller that closed its half of the connection and one that has gone look alike. What tells them apart is that the
// system of the latter answers whatever we send by a reset; and "100 Continue" means nothing to the former. HTTP/1.0
// has no such line: its caller gets the beginning of its answer, which is the same for all answers.
void Connection::check_caller(Time now) {
  if (!is_waiting() || has_gone_ || now < ask_caller_at_) return;
  if (!was_asked_) {
    was_asked_ = true;
    Code ignored;
    if (head_.is_http_10)
      sent_ahead_ = socket_.write_some(asio::buffer(kVersion10), ignored);
    else
      socket_.write_some(asio::buffer(kContinue), ignored);
    return;
  }
  pollfd state{socket_.native_handle(), 0, 0};
  if (poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0) give_up();
}

// A head that is all there at once, the usual case, costs one peek and is read together with what follows it.
Task<Connection::Io> Connection::read_head() {
  filled_ = taken_ = 0;
  unread_ = 0;
  request_id_.clear();
  head_ = {};
  wants_alive_ = is_head_ = awaits_continue_ = was_asked_ = false;
  ask_caller_at_ = Time::never();
  answer_room_.reset();
  set_idle(true);
  if (shard_.is_stopping) co_return Io::kClosed;
  arm(is_refused_ ? limits_.refused : limits_.keep_alive);
  size_t scanned = 0;
  for (;;) {
    if (!is_peeking_ && !has_peeked_) start_peek();
    co_await peek_signal_.wait();
    has_peeked_ = false;
    set_idle(false);
    if (peek_error_ || is_ending_) {
      // Nobody is owed an answer before the first byte of a head.
      co_return has_timed_out_&& filled_ > 0 && !is_refused_ ? Io::kTimedOut : Io::kClosed;
    }
    const bool is_first = filled_ == 0;
    filled_ += peeked_;
    unread_ = filled_ - taken_;
    const std::string_view seen(buffer_.get(), filled_);
    if (const size_t end = find_head_end(seen, scanned); end > 0 && end <= limits_.header_bytes) {
      disarm();
      head_.size = end;
      co_return Io::kOk;
    }
    if (is_first && !is_refused_) arm(limits_.header_time);
    scanned = filled_;
    if (filled_ > limits_.header_bytes) {
      disarm();
      head_.size = 0;  // serve() answers 431
      co_return Io::kOk;
    }
    // All of it belongs to the head: take it, so that the next peek shows what is new.
    asio::mutable_buffer rest(buffer_.get() + taken_, filled_ - taken_);
    if (const Io io = co_await read_all({&rest, 1}); io != Io::kOk) co_return io;
    taken_ = filled_;
  }
}

Task<Then> Connection::serve() {
  unread_ = kUnknown;
  if (head_.size == 0)
    co_return co_await answer_failure(
        Failure(invalid(fmt::format("request: the head is longer than {} bytes", limits_.header_bytes)), 431));
  const size_t head_size = head_.size;
  if (auto failure = parse_head({buffer_.get(), head_size}, head_))
    co_return co_await answer_failure(*std::move(failure));
  head_.size = head_size;
  is_head_ = head_.method == Method::kHead;
  const uint64_t length = head_.content_length.value_or(0);
  if (is_refused_)
    co_return co_await answer_failure(Failure(
        unavailable(fmt::format("server: {} connections are open, the most there may be", limits_.connections))));
  // Past the limit, or of unknown length, the rest is never read and the connection ends with the answer.
  const bool is_measured = !head_.is_chunked && length <= limits_.body_bytes;
  unread_ = is_measured ? head_size - taken_ + length : kUnknown;
  wants_alive_ = head_.keeps_alive && is_measured;
  awaits_continue_ = head_.expects_continue && length > 0 && filled_ == head_size;

  if (!front_.config.has_keys && !is_of_this_machine(head_.host, head_.origin))
    co_return co_await answer_failure(Failure(
        denied(fmt::format("header Host or Origin: '{}' is not this machine, and a server without tenants answers "
                           "this machine alone; call it as localhost, or name tenants in its quern.yaml",
                           (head_.origin.empty() ? head_.host : head_.origin).substr(0, 64))),
        403));

  auto failure = find_route(head_.method, head_.target, route_);
  tenant_ = nullptr;
  if (route_.needs_key) {
    auto known = front_.daemon.authenticate(head_.key);
    if (!known.ok()) co_return co_await answer_failure(Failure(std::move(known).error(), 401));
    tenant_ = *known;
  }
  if (failure) co_return co_await answer_failure(*std::move(failure));
  if (!head_.content_encoding.empty())
    co_return co_await answer_failure(
        Failure(unsupported(fmt::format("header Content-Encoding: {} is not taken; send the body as it is",
                                        head_.content_encoding.substr(0, 64))),
                415));
  if (head_.is_chunked)
    co_return co_await answer_failure(
        Failure(invalid("header Transfer-Encoding: chunked bodies are not taken; send Content-Length"), 411));
  if (!is_measured)
    co_return co_await answer_failure(Failure(
        invalid(fmt::format("request: a body of {} bytes, and at most {} are taken", length, limits_.body_bytes)),
        413));
  const BodyRule& body = route_.row->body;
  if (!body.name.empty() && !head_.content_length)
    co_return co_await answer_failure(Failure(invalid("header Content-Length: missing"), 411));
  if (!body.name.empty() && length > body.most_bytes)
    co_return co_await answer_failure(Failure(
        invalid(fmt::format("{}: {} bytes, and at most {} are taken", body.name, length, body.most_bytes)), 413));
  co_return co_await route_.row->handler(*this);
}

const daemon::Tenant& Connection::tenant() const {
  QUERN_CHECK(tenant_ != nullptr, "a handler asks who calls an endpoint that is open to all");
  return *tenant_;
}

void Connection::leave_buffer() {
  filled_ = taken_ = 0;
  head_.target = head_.key = head_.method_text = head_.content_encoding = head_.host = head_.origin = {};
}

Task<Connection::Io> Connection::read_all(std::span<asio::mutable_buffer> into) {
  Code ec;
  asio::mutable_buffer cut;
  size_t turn = limits_.turn_bytes, got = 0;
  Time waits_since{0};
  into = skip_front(into, 0);
  while (!into.empty()) {
    const auto some = first_of(into, turn, cut);
    size_t size = socket_.read_some(some, ec);
    if (would_block(ec)) {
      // The limit on a head is one for all of it, and armed already.
      if (head_.size > 0) arm_turn(waits_since);
      std::tie(ec, size) = co_await socket_.async_read_some(some, kTuple);
      turn = limits_.turn_bytes;
    }
    if (ec) co_return has_timed_out_ ? Io::kTimedOut : Io::kClosed;
    unread_ -= size;
    into = skip_front(into, size);
    if ((got += size) >= limits_.turn_bytes) got = 0, waits_since = {0};
    turn -= std::min(turn, size);
    if (turn == 0) {
      co_await let_others();
      turn = limits_.turn_bytes;
    }
  }
  if (head_.size > 0) disarm();
  co_return Io::kOk;
}

void Connection::arm_turn(Time& since) {
  const Time now = os::now();
  if (since.ns == 0) since = now;
  arm(std::max(std::min(limits_.body_idle, since + limits_.slowest_turn - now), Duration{1}));
}

Task<> Connection::let_others() { co_await asio::post(shard_.io, kAwait); }

Task<Connection::Io> Connection::write_all(std::span<asio::const_buffer> from) {
  Code ec;
  asio::const_buffer cut;
  size_t turn = limits_.turn_bytes, got = 0;
  Time waits_since{0};
  from = skip_front(from, 0);
  while (!from.empty()) {
    const auto some = first_of(from, turn, cut);
    size_t size = socket_.write_some(some, ec);
    if (would_block(ec)) {
      arm_turn(waits_since);
      std::tie(ec, size) = co_await socket_.async_write_some(some, kTuple);
      turn = limits_.turn_bytes;
    }
    if (ec) co_return has_timed_out_ ? Io::kTimedOut : Io::kClosed;
    from = skip_front(from, size);
    if ((got += size) >= limits_.turn_bytes) got = 0, waits_since = {0};
    turn -= std::min(turn, size);
    if (turn == 0) {
      co_await let_others();
      turn = limits_.turn_bytes;
    }
  }
  disarm();
  co_return Io::kOk;
}

Task<Connection::Io> Connection::discard(uint64_t bytes) {
  while (bytes > 0) {
    const size_t size = std::min<uint64_t>(bytes, buffer_size_);
    asio::mutable_buffer some(buffer_.get(), size);
    if (const Io io = co_await read_all({&some, 1}); io != Io::kOk) co_return io;
    bytes -= size;
  }
  co_return Io::kOk;
}

Task<Connection::Io> Connection::send_continue() {
  if (!std::exchange(awaits_continue_, false)) co_return Io::kOk;
  asio::const_buffer line(kContinue.data(), kContinue.size());
  co_return co_await write_all({&line, 1});
}

void Connection::begin_head(int status, std::string_view content_type, uint64_t content_length) {
  answer_head_.assign(head_.is_http_10 ? kVersion10.substr(std::exchange(sent_ahead_, 0)) : "HTTP/1.1 ");
  append_number(answer_head_, static_cast<uint64_t>(status));
  answer_head_ += ' ';
  answer_head_ += reason_of(status);
  answer_head_ += "\r\nContent-Type: ";
  answer_head_ += content_type;
  answer_head_ += "\r\nContent-Length: ";
  append_number(answer_head_, content_length);
  answer_head_ += "\r\nQuern-Request: ";
  answer_head_ += request_id_;
  answer_head_ += "\r\n";
}

void Connection::end_head(bool closes) {
  if (closes)
    answer_head_ += "Connection: close\r\n";
  else if (head_.is_http_10)
    answer_head_ += "Connection: keep-alive\r\n";
  answer_head_ += "\r\n";
}

// What was not read of the request has to leave the stream before the next head can be read. Little is thrown away;
// for much, and from a caller that waits for "100 Continue" and may send its body or not, the connection ends.
Task<Then> Connection::answer(int status, std::string_view content_type, std::string_view body,
                              std::string_view header_lines) {
  is_written_ = false;
  if (request_id_.empty()) request_id_ = front_.make_id();
  const bool is_drained = unread_ <= kMostDrained && !awaits_continue_;
  const bool closes = !keeps_alive() || !is_drained;
  begin_head(status, content_type, body.size());
  answer_head_ += header_lines;
  end_head(closes);
  from_.clear();
  from_.push_back(asio::buffer(answer_head_));
  if (!is_head_) from_.push_back(asio::buffer(body));
  // What is in the buffer is in the socket: reading it now saves the caller's next request a turn.
  const uint64_t here = std::min<uint64_t>(unread_, filled_ - taken_);
  if (!closes && unread_ == here && co_await discard(here) != Io::kOk) co_return Then::kClose;
  if (co_await write_all(from_) != Io::kOk) co_return Then::kClose;
  is_written_ = true;
  if (!closes) co_return co_await discard(unread_) == Io::kOk ? Then::kNext : Then::kClose;
  co_await linger();
  co_return Then::kClose;
}

Task<Then> Connection::answer_json(JsonAnswer given) {
  co_return co_await answer(given.status, "application/json", given.json, {});
}

Task<Then> Connection::answer_failure(Failure failure) {
  if (request_id_.empty()) request_id_ = front_.make_id();
  answer_json_.clear();
  append_error_json(answer_json_, failure.error, request_id_);
  const std::string header_lines = header_lines_of(failure);
  co_return co_await answer(status_of(failure), "application/json", answer_json_, header_lines);
}

// A caller that has gone is owed nothing; one that is too slow learns it.
Task<Then> Connection::failed_read(Io how) {
  if (how == Io::kClosed || is_ending_) co_return Then::kClose;
  has_timed_out_ = false;
  wants_alive_ = false;
  unread_ = kUnknown;
  const bool in_head = head_.size == 0;
  Error error{
      ErrorCode::kDeadline,
      fmt::format("request: {}", in_head ? "the head took longer than " + to_string(limits_.header_time)
                                         : fmt::format("nothing came of the body for {}, or less than {} in {}",
                                                       to_string(limits_.body_idle), show_bytes(limits_.turn_bytes),
                                                       to_string(limits_.slowest_turn)))};
  co_return co_await answer_failure(Failure(std::move(error), 408));
}

// Closing a socket with unread bytes resets it, and the caller may lose our answer: so first let it finish.
Task<> Connection::linger() {
  Code ec;
  socket_.shutdown(Socket::shutdown_send, ec);
  if (is_ending_ || has_gone_) co_return;
  if (unread_ == 0 && !has_peeked_) co_return;
  deadline_ = os::now() + (is_refused_ ? std::min(limits_.refused, limits_.linger) : limits_.linger);
  while (!ec) {
    if (is_peeking_) {
      co_await peek_signal_.wait();
      ec = peek_error_;
      continue;
    }
    size_t size = 0;
    std::tie(ec, size) = co_await socket_.async_receive(asio::buffer(buffer_.get(), buffer_size_), kTuple);
  }
}

}  // namespace quern::server
