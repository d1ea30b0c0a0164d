// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "os/clock.h"
#include "server/http/handlers.h"

namespace quern::server {
namespace {

constexpr size_t kFirstRead = 64 * kKiB;
// What is longer is read, or written, by the scribe: some 100 us of JSON are the event loop's own.
constexpr size_t kLongJson = 64 * kKiB;
constexpr uint64_t kManyElements = 4096;
constexpr uint64_t kElementsAtOnce = 32 * 1024;  // by the scribe: some 2 ms
// The shortest element of JSON with its comma, and the longest: a double.
constexpr uint64_t kShortestElement = 2, kLongestElement = 26;

}  // namespace

Task<Then> infer(Connection& connection) { return connection.infer(); }

// A small call, as the system sees it: one peek, one scatter read of head, JSON and tensors, one gather write.
Task<Then> Connection::infer() {
  const Time begun = os::now();
  const daemon::Tenant& tenant = this->tenant();
  const uint64_t length = *head_.content_length;
  const uint64_t json_length = head_.json_length.value_or(length);
  if (json_length > length)
    co_return co_await answer_failure(Failure(invalid(fmt::format(
        "header Inference-Header-Content-Length: {} is more than Content-Length, {}", json_length, length))));
  if (json_length > limits_.json_bytes)
    co_return co_await answer_failure(
        Failure(invalid(fmt::format("request: {} bytes of JSON, and at most {} are taken; send tensors as binary",
                                    json_length, limits_.json_bytes)),
                413));
  auto found = front_.daemon.find(tenant, route_.name, route_.version);
  if (!found.ok()) co_return co_await answer_failure(Failure(std::move(found).error()));
  const daemon::FunctionRef function = *std::move(found);
  Duration retry_after{0};
  if (Status status = front_.daemon.admits(tenant, &retry_after); !status.ok()) {
    Failure failure(std::move(status).error());
    failure.retry_after = retry_after;
    co_return co_await answer_failure(std::move(failure));
  }

  // (GCC 12 destroys what a co_await within ?: gives twice.)
  const bool is_long = json_length > kLongJson;
  std::shared_ptr<void> room;
  if (is_long) {
    room = front_.requests.take(tenant.name, json_length);
    if (!room) {
      Failure failure(exhausted("request: too much JSON is being read; retry later, or send tensors as binary"));
      failure.retry_after = Duration::seconds(1);
      co_return co_await answer_failure(std::move(failure));
    }
  }
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await read_json(json_length); io != Io::kOk) co_return co_await failed_read(io);
  std::optional<Failure> failure;
  const auto parse = [&] { failure = parse_call(*function, length - json_length); };
  const auto prepare = [&] { failure = prepare_call(tenant, function); };
  if (is_long)
    co_await scribed(tenant, parse);
  else
    parse();
  if (failure) co_return co_await answer_failure(*std::move(failure));
  if (request_.names_objects()) {
    const Status opened = co_await open_inputs(tenant);
    if (!opened.ok()) co_return co_await answer_failure(Failure(opened.error()));
  }
  if (is_long)
    co_await scribed(tenant, prepare);
  else
    prepare();
  if (failure) co_return co_await answer_failure(*std::move(failure));
  Time now = os::now();
  front_.stages.parse.add(begun, now);

  if (!into_.empty()) {
    if (const Io io = co_await read_all(into_); io != Io::kOk) {
      call_.reset();
      co_return co_await failed_read(io);
    }
    const Time read = os::now();
    front_.stages.body.add(now, read);
    now = read;
  }

  leave_buffer();
  abandon_ = &daemon::Daemon::cancel;
  start_peek();
  front_.daemon.submit(std::move(call_), handing_to(call_));
  co_await done_.wait();
  abandon_ = nullptr;
  co_return co_await answer_call(tenant, *function, now);
}

// The JSON, in the buffer if it was peeked at as a whole, else in one of its own that grows with what has come: what
// is announced costs nothing.
Task<Connection::Io> Connection::read_json(uint64_t length) {
  if (head_.size + length <= filled_) {
    json_ = {buffer_.get() + head_.size, length};
    into_.assign(1, asio::buffer(buffer_.get() + taken_, head_.size + length - taken_));
    co_return Io::kOk;
  }
  into_.clear();
  if (taken_ < head_.size) into_.push_back(asio::buffer(buffer_.get() + taken_, head_.size - taken_));
  for (size_t have = 0; have < length;) {
    const size_t room = std::min<uint64_t>(length, std::max<size_t>(kFirstRead, 2 * have));
    if (room > json_capacity_) {
      auto larger = std::make_unique_for_overwrite<char[]>(room);
      if (have > 0) std::memcpy(larger.get(), json_buffer_.get(), have);
      json_buffer_ = std::move(larger);
      json_capacity_ = room;
    }
    into_.push_back(asio::buffer(json_buffer_.get() + have, room - have));
    if (const Io io = co_await read_all(into_); io != Io::kOk) co_return io;
    taken_ = head_.size;
    into_.clear();
    have = room;
  }
  json_ = {json_buffer_.get(), length};
  co_return Io::kOk;
}

std::optional<Failure> Connection::parse_call(const daemon::Function& function, uint64_t binary_length) {
  if (Status status = parse_infer(json_, request_); !status.ok()) return Failure(std::move(status).error());
  uint64_t announced = 0;
  for (const InputSource& source : request_.sources) {
    const uint64_t bytes = source.binary_bytes.value_or(0);
    if (bytes > limits_.body_bytes || (announced += bytes) > limits_.body_bytes)
      return Failure(invalid(fmt::format("request: binary_data_size adds up to more than the {} bytes that are taken",
                                         limits_.body_bytes)),
                     413);
  }
  if (announced != binary_length) {
    if (!head_.json_length && announced > 0)
      return Failure(
          invalid(fmt::format("request: {} bytes of binary tensors are announced, but the header "
                              "Inference-Header-Content-Length, which says where they begin, is missing",
                              announced)));
    return Failure(
        invalid(fmt::format("request: binary_data_size adds up to {} bytes, but {} follow the JSON "
                            "(Content-Length {}, Inference-Header-Content-Length {})",
                            announced, binary_length, *head_.content_length, json_.size())));
  }
  outputs_.clear();
  for (const BufferDecl& buffer : function.manifest.buffers)
    if (buffer.role == Role::kOutput) outputs_.push_back(&buffer);
  if (Status status = pick_outputs(request_, outputs_, picks_); !status.ok()) return Failure(std::move(status).error());
  for (const OutputPick& pick : picks_)
    if (pick.lease) request_.options.kept.emplace(outputs_[pick.index]->name, *pick.lease);
  return std::nullopt;
}

// What inputs name, before the call is checked: a size can only be wrong once it is known.
Task<Status> Connection::open_inputs(const daemon::Tenant& tenant) {
  std::vector<std::string> ids;
  for (const InputSource& source : request_.sources)
    if (!source.object.empty()) ids.push_back(source.object);
  auto opened = co_await asked<Result<std::vector<daemon::ObjectRef>>>(
      [&](auto done) { front_.daemon.open_objects(tenant, std::move(ids), std::move(done)); });
  if (!opened.ok()) co_return std::move(opened).error();
  auto next = opened->begin();
  for (const InputSource& source : request_.sources)
    request_.options.objects.push_back(source.object.empty() ? nullptr : *next++);
  co_return Status();
}

// Leaves the call in call_ with its JSON tensors filled, and in into_ what is still to be read, in the order in which
// it comes.
std::optional<Failure> Connection::prepare_call(const daemon::Tenant& tenant, const daemon::FunctionRef& function) {
  auto prepared = front_.daemon.prepare(tenant, function, request_.spec, request_.options);
  request_.options.objects.clear();  // the call has them
  if (!prepared.ok()) return Failure(std::move(prepared).error());
  std::unique_ptr<daemon::Call> call = *std::move(prepared);
  request_id_ = call->id;
  if (auto failure = take_answer_room(tenant, *call)) return failure;
  for (size_t i = 0; i < call->inputs.size(); ++i) {
    const daemon::CallTensor& tensor = call->inputs[i];
    const InputSource& source = request_.sources[i];
    if (!source.binary_bytes) continue;
    if (*source.binary_bytes != tensor.bytes.size())
      return Failure(invalid(fmt::format("input {}: binary_data_size is {}, but {} of shape {} takes {} bytes",
                                         tensor.name, *source.binary_bytes, protocol_name_of(tensor.dtype),
                                         show_shape(tensor.shape), tensor.bytes.size())));
    into_.push_back(asio::buffer(tensor.bytes.data(), tensor.bytes.size()));
  }
  if (request_.has_json_data()) {
    if (Status status = read_tensors(json_, request_, call->inputs); !status.ok())
      return Failure(std::move(status).error());
  }
  call_ = std::move(call);
  return std::nullopt;
}

// An answer that can only be too long is refused before the call costs anything, and so is one that there is no memory
// for.
std::optional<Failure> Connection::take_answer_room(const daemon::Tenant& tenant, const daemon::Call& call) {
  const uint64_t elements = json_elements_of(call, picks_);
  if (elements <= kManyElements) return std::nullopt;
  const uint64_t most = limits_.answer_json_bytes;
  if (elements > most / kShortestElement) {
    const auto longest = std::max_element(picks_.begin(), picks_.end(), [&](const auto& a, const auto& b) {
      return json_elements_of(call, {&a, 1}) < json_elements_of(call, {&b, 1});
    });
    return Failure(AnswerWriter::too_long(call.outputs[longest->index].name, most));
  }
  answer_room_ = front_.answers.take(tenant.name, std::min(most, elements * kLongestElement));
  if (answer_room_) return std::nullopt;
  Failure failure(exhausted(
      "outputs: too many large answers of JSON are on their way; retry later, or ask for binary (\"binary_data\": "
      "true)"));
  failure.retry_after = Duration::seconds(1);
  return failure;
}

Task<Status> Connection::write_json(const daemon::Tenant& tenant, const daemon::Function& function,
                                    const daemon::Call& call) {
  AnswerWriter writer(answer_json_, function, request_, call, picks_, limits_.answer_json_bytes);
  if (!answer_room_) {
    const auto more = writer.append(kManyElements);
    if (!more.ok()) co_return more.error();
    co_return Status();
  }
  co_return co_await asked<Status>([&](auto done) {
    front_.scribe.add(tenant.name, [&writer, done] {
      const auto more = writer.append(kElementsAtOnce);
      if (more.ok() && *more) return true;
      done(more.ok() ? Status() : Status(more.error()));
      return false;
    });
  });
}

Task<Then> Connection::answer_call(const daemon::Tenant& tenant, const daemon::Function& function, Time asked) {
  const Time back = os::now();
  // The tensors are in the arena until the answer is written.
  const std::unique_ptr<daemon::Call> call = std::move(call_);
  Stages& stages = front_.stages;
  const daemon::CallTimes& times = call->times;
  stages.submit.add(asked, times.taken);
  stages.core.add(times.taken, times.pushed);
  stages.ring.add(times.pushed, times.read);
  stages.executor.add(times.read, times.started);
  stages.device.add(times.started, times.finished);
  stages.driver.add(times.finished, times.reported);
  stages.back.add(times.reported, times.answered);
  stages.wake.add(times.answered, back);
  stages.device_ns.fetch_add(times.device_time_ns, std::memory_order_relaxed);
  if (has_gone_) co_return Then::kClose;
  if (call->error) {
    answer_room_.reset();
    Failure failure(*std::move(call->error));
    failure.retry_after = call->retry_after;
    co_return co_await answer_failure(std::move(failure));
  }
  answer_json_.clear();
  const std::shared_ptr<void> room = answer_room_;  // until it is written
  const Status told = co_await write_json(tenant, function, *call);
  answer_room_.reset();
  if (!told.ok()) co_return co_await answer_failure(Failure(told.error()));
  // From here on the caller learns the ids of what stays.
  if (!request_.options.kept.empty()) front_.daemon.keep_outputs(*call);

  uint64_t binary_bytes = 0;
  bool has_binary = false;
  from_.assign(2, {});
  for (const OutputPick& pick : picks_) {
    if (!pick.is_binary) continue;
    const std::span<const std::byte> bytes = call->outputs[pick.index].bytes;
    from_.push_back(asio::buffer(bytes.data(), bytes.size()));
    binary_bytes += bytes.size();
    has_binary = true;
  }
  const bool closes = !keeps_alive();
  begin_head(200, has_binary ? "application/octet-stream" : "application/json", answer_json_.size() + binary_bytes);
  if (has_binary) {
    answer_head_ += "Inference-Header-Content-Length: ";
    char text[24];
    answer_head_.append(text, std::to_chars(text, text + sizeof text, answer_json_.size()).ptr);
    answer_head_ += "\r\n";
  }
  end_head(closes);
  from_[0] = asio::buffer(answer_head_);
  from_[1] = asio::buffer(answer_json_);
  if (co_await write_all(from_) != Io::kOk) co_return Then::kClose;
  stages.answer.add(back, os::now());
  if (!closes) co_return Then::kNext;
  co_await linger();
  co_return Then::kClose;
}

}  // namespace quern::server
