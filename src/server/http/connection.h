// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.h"
#include "daemon/daemon.h"
#include "server/error_map.h"
#include "server/http/asio.h"
#include "server/http/front.h"
#include "server/http/infer_json.h"
#include "server/http/json_answer.h"
#include "server/http/request_head.h"
#include "server/http/router.h"

namespace quern::server {

class Connection;

/// One thread with its event loop and the connections dealt out to it, which never leave it.
struct Shard {
  explicit Shard(Front& f) : front(f) {}

  Front& front;
  asio::io_context io{1};
  // The shard's thread only.
  std::set<Connection*> connections;
  std::list<Connection*> idle;    ///< those between two requests, and before the first; the longest first
  std::list<Connection*> silent;  ///< those that are refused and have sent nothing yet; the oldest first
  bool is_stopping = false;
  // Any thread. Daemon callbacks that are not through yet: the shard may not go before them.
  std::atomic<uint32_t> callbacks{0};
};

/// Something one coroutine waits for and its own thread tells, before or after.
class Signal {
 public:
  void set();
  /// Returns once it was set, and clears it.
  Task<> wait();

 private:
  struct Waiter {
    virtual ~Waiter() = default;
    virtual void resume() = 0;
  };
  bool is_set_ = false;
  std::unique_ptr<Waiter> waiter_;
};

/// One connection: reads requests one after the other and answers each before it takes the next.
///
/// Heads are peeked at (MSG_PEEK), not read: what follows a head may be tensors, and those are read only once it is
/// known where in the arena they belong, in one scatter read together with the head that was peeked. While a call
/// runs, the peek for the next head is already out: it finds a caller that has gone, and the call is cancelled. One
/// that only closed its own half still gets its answer. (A caller that sent its next request ahead is not noticed
/// going.)
class Connection {
 public:
  /// `is_refused`: one too many; its first request is answered 503.
  Connection(Shard& shard, Socket socket, bool is_refused);

  /// Its whole life.
  Task<> run();

  // From the shard's thread:
  /// Ends what took longer than it may, and the work of a caller that has gone.
  void check_deadline(Time now);
  /// Ends it if it is between two requests; else its next answer is its last.
  void wind_down();
  /// Ends it now; a running call is cancelled.
  void abort();

  // For handlers (handlers.h), about the request at hand:
  const RequestHead& head() const { return head_; }
  const Route& route() const { return route_; }
  /// The caller. Dies if the endpoint is open to callers without a key.
  const daemon::Tenant& tenant() const;
  Front& front() { return front_; }
  daemon::Daemon& daemon() { return front_.daemon; }

  /// Reads a call, runs it and answers with its outputs (infer.cc).
  Task<Then> infer();

  // The body of the request (body.cc). If the body does not come whole, these functions answer the caller, and the
  // handler returns their result. receive and read_body need a Content-Length.
  /// Sends the body on to the disk, piece by piece. After a failure `upload` is null.
  Task<std::optional<Then>> receive(std::unique_ptr<daemon::Upload>& upload);
  /// Reads the whole body into memory: its row has a small BodyRule::most_bytes.
  Task<std::optional<Then>> read_body(std::string& into);
  /// Reads the body, if there is one, and throws it away.
  Task<std::optional<Then>> drop_body();

  /// Asks the daemon, and returns the answer: `ask` gets the callback that the daemon is to call with it.
  template <class T, class Ask>
  Task<T> asked(Ask ask);
  /// Asks the daemon for work that may take long, and watches the caller meanwhile: `ask` gets the id of the request
  /// and the callback. If the caller goes, the daemon is told by `abandon` with that id, and the result is empty:
  /// nobody is owed an answer. The body of the request must have been read before.
  template <class T, class Ask>
  Task<std::optional<T>> asked_watched(void (daemon::Daemon::*abandon)(const std::string& id), Ask ask);
  /// Asks the daemon, and answers the caller: with the error of the daemon, or with the JsonAnswer that `show` makes of
  /// its value. T is a Result; or Status, whose `show` takes nothing.
  template <class T, class Ask, class Show>
  Task<Then> ask_and_answer(Ask ask, Show show);

  /// Writes an answer that is in one piece, and leaves the stream at the next request where it can.
  Task<Then> answer(int status, std::string_view content_type, std::string_view body, std::string_view header_lines);
  Task<Then> answer_json(JsonAnswer given);
  Task<Then> answer_failure(Failure failure);
  /// Whether the last answer was written to its end.
  bool is_written() const { return is_written_; }

 private:
  enum class Io : uint8_t { kOk, kClosed, kTimedOut };

  // connection.cc
  Task<> serve_all();
  Task<Io> read_head();
  Task<Then> serve();
  /// Reads until all of `into` is full. Without a coroutine's cost where the bytes are there already.
  Task<Io> read_all(std::span<asio::mutable_buffer> into);
  Task<Io> write_all(std::span<asio::const_buffer> from);
  /// Comes back once the other connections of this thread had a turn.
  Task<> let_others();
  Task<Io> discard(uint64_t bytes);
  Task<Io> send_continue();
  Task<Then> failed_read(Io how);
  Task<> linger();
  void start_peek();
  /// Whether the daemon works for the request at hand, and is to be told if the caller goes.
  bool is_waiting() const { return abandon_ != nullptr; }
  /// Nobody waits for what the daemon does for it.
  void give_up();
  void check_caller(Time now);
  void set_idle(bool is_idle);
  void begin_head(int status, std::string_view content_type, uint64_t content_length);
  void end_head(bool closes);
  bool keeps_alive() const;
  void arm(Duration limit);
  /// While some of a body or an answer is to get through, which began to wait at `since`, or has not waited yet.
  void arm_turn(Time& since);
  void disarm();
  /// The request was read as a whole: from here on the buffer belongs to the next one.
  void leave_buffer();
  /// A callback for the daemon, which calls it once, from any thread: moves the argument to `into`, and sets `done_` on
  /// the thread of this connection.
  template <class T>
  auto handing_to(T& into);
  /// The scribe does it in the tenant's turn; `work` lives until then.
  template <class Work>
  Task<> scribed(const daemon::Tenant& tenant, const Work& work);

  // infer.cc
  Task<Io> read_json(uint64_t length);
  std::optional<Failure> parse_call(const daemon::Function& function, uint64_t binary_length);
  Task<Status> open_inputs(const daemon::Tenant& tenant);
  std::optional<Failure> prepare_call(const daemon::Tenant& tenant, const daemon::FunctionRef& function);
  std::optional<Failure> take_answer_room(const daemon::Tenant& tenant, const daemon::Call& call);
  Task<Status> write_json(const daemon::Tenant& tenant, const daemon::Function& function, const daemon::Call& call);
  Task<Then> answer_call(const daemon::Tenant& tenant, const daemon::Function& function, Time asked);

  // body.cc
  /// What came of a body on its way to the disk. An error of the disk leaves the rest of the body unread.
  struct Received {
    Io io = Io::kOk;
    Status written;
  };
  Task<Received> send_on(daemon::Upload& upload);

  // Constant after construction.
  Shard& shard_;
  Front& front_;
  const ServerLimits& limits_;
  const bool is_refused_;
  const size_t buffer_size_;
  const std::unique_ptr<char[]> buffer_;

  // The shard's thread only.
  Socket socket_;
  Time deadline_ = Time::never();
  bool has_timed_out_ = false, is_idle_ = false, is_ending_ = false;
  /// Its place in Shard::idle, or in Shard::silent, which it has with itself while it is not idle: moving it there
  /// allocates nothing.
  std::list<Connection*> place_{this};
  const std::list<Connection*>::iterator at_ = place_.begin();

  // The peek: at most one is out, and it writes behind filled_.
  bool is_peeking_ = false, has_peeked_ = false;
  boost::system::error_code peek_error_;
  size_t peeked_ = 0;
  Signal peek_signal_;

  // The request at hand. [0, filled_) of the buffer is its beginning, of which [0, taken_) is also read, not only
  // peeked at. unread_ counts its bytes that are still in the socket.
  size_t filled_ = 0, taken_ = 0;
  uint64_t unread_ = 0;
  RequestHead head_;
  bool wants_alive_ = false, is_head_ = false, awaits_continue_ = false;
  Route route_;
  const daemon::Tenant* tenant_ = nullptr;  ///< null: the endpoint asks for no key
  std::string request_id_;
  std::string_view json_;
  std::unique_ptr<char[]> json_buffer_;
  size_t json_capacity_ = 0;
  InferRequest request_;
  std::vector<OutputPick> picks_;
  std::vector<const BufferDecl*> outputs_;
  std::vector<asio::mutable_buffer> into_;
  std::vector<asio::const_buffer> from_;
  std::string answer_head_, answer_json_;
  std::shared_ptr<void> answer_room_;  ///< of an answer with much JSON
  bool is_written_ = false;            ///< the last answer, all of it

  // The call at hand; the daemon's callback writes `call_` before it posts.
  std::unique_ptr<daemon::Call> call_;
  /// How to tell the daemon that the caller has gone; null while the daemon does no long work for the request at hand.
  void (daemon::Daemon::*abandon_)(const std::string& id) = nullptr;
  bool has_gone_ = false;
  Time ask_caller_at_ = Time::never();  ///< it sends no more: when to find out whether it still listens
  bool was_asked_ = false;
  size_t sent_ahead_ = 0;  ///< bytes of the answer's first line, by which it was asked
  Signal done_;
};

template <class T>
auto Connection::handing_to(T& into) {
  shard_.callbacks.fetch_add(1, std::memory_order_relaxed);
  return [this, &into](auto handed) {
    // Once it is posted, this connection may be gone before `post` returns; the shard waits for the count.
    Shard& shard = shard_;
    into = std::move(handed);
    asio::post(shard.io, [this] { done_.set(); });
    shard.callbacks.fetch_sub(1, std::memory_order_release);
  };
}

template <class T, class Ask>
Task<T> Connection::asked(Ask ask) {
  std::optional<T> got;
  ask(handing_to(got));
  co_await done_.wait();
  co_return *std::move(got);
}

template <class T, class Ask>
Task<std::optional<T>> Connection::asked_watched(void (daemon::Daemon::*abandon)(const std::string& id), Ask ask) {
  if (request_id_.empty()) request_id_ = front_.make_id();
  abandon_ = abandon;
  start_peek();
  T got = co_await asked<T>([&](auto done) { ask(request_id_, std::move(done)); });
  abandon_ = nullptr;
  if (has_gone_) co_return std::nullopt;
  co_return std::move(got);
}

template <class T, class Ask, class Show>
Task<Then> Connection::ask_and_answer(Ask ask, Show show) {
  const T told = co_await asked<T>(std::move(ask));
  if (!told.ok()) co_return co_await answer_failure(Failure(told.error()));
  JsonAnswer shown;
  if constexpr (std::is_same_v<T, Status>)
    shown = show();
  else
    shown = show(*told);
  co_return co_await answer_json(std::move(shown));
}

template <class Work>
Task<> Connection::scribed(const daemon::Tenant& tenant, const Work& work) {
  co_await asked<bool>([&](auto done) {
    front_.scribe.add(tenant.name, [&work, done] {
      work();
      done(true);
      return false;
    });
  });
}

}  // namespace quern::server
