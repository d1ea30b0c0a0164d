// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <charconv>
#include <cstring>

#include "client/address.h"
#include "client/wire.h"
#include "os/clock.h"

namespace quern::client {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Code = boost::system::error_code;
using Pieces = std::span<const std::span<const std::byte>>;

constexpr uint64_t kLargestAnswer = uint64_t{16} << 30;
constexpr uint32_t kLargestHeader = 64 * 1024;

/// A socket whose calls end at a deadline. Asio's own blocking calls know none, and its asynchronous ones cost a timer
/// and a trip through a queue per call.
class TimedStream {
 public:
  explicit TimedStream(asio::ip::tcp::socket& socket) : socket_(socket) {}
  Time deadline = Time::never();

  template <class Buffers>
  size_t read_some(const Buffers& buffers, Code& code) {
    for (;;) {
      if (!wait(POLLIN, code)) return 0;
      const size_t size = socket_.read_some(buffers, code);
      if (code != asio::error::would_block) return size;
    }
  }
  // Beast asks for the forms that throw as well, and calls only the others.
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    Code code;
    const size_t size = read_some(buffers, code);
    if (code) throw boost::system::system_error(code);
    return size;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers, Code& code) {
    for (;;) {
      const size_t size = socket_.write_some(buffers, code);
      if (code != asio::error::would_block) return size;
      if (!wait(POLLOUT, code)) return 0;
    }
  }

 private:
  bool wait(short events, Code& code) {
    for (;;) {
      const int64_t left = deadline == Time::never() ? -1 : (deadline - os::now()).ns;
      if (deadline != Time::never() && left <= 0) {
        code = asio::error::timed_out;
        return false;
      }
      pollfd one{socket_.native_handle(), events, 0};
      const int limit = left < 0 ? -1 : static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, 60'000));
      if (::poll(&one, 1, limit) > 0) {
        code = {};
        return true;
      }
    }
  }

  asio::ip::tcp::socket& socket_;
};

}  // namespace

/// One connection: opened when first needed, and again when the server closed it between two calls.
class Client::Connection {
 public:
  Connection(Options options, Address address) : options_(std::move(options)), address_(std::move(address)) {}

  Result<HttpAnswer> exchange(std::string_view method, std::string_view target, std::string_view header_lines,
                              Pieces body) {
    stream_.deadline = os::now() + options_.timeout;
    if (is_stale()) close();
    if (!socket_.is_open()) QUERN_TRY(connect());
    auto answer = exchange_once(method, target, header_lines, body);
    if (!answer.ok()) close();
    return answer;
  }

 private:
  Error lost(std::string_view what, const Code& code) const {
    if (code == asio::error::timed_out)
      return {ErrorCode::kDeadline,
              fmt::format("server {}: no answer within {}", options_.url, to_string(options_.timeout))};
    return unavailable(fmt::format("server {}: {}: {}", options_.url, what, code.message()));
  }

  void close() {
    Code ignored;
    socket_.close(ignored);
    buffer_.clear();
  }

  // Between two calls nothing may come: what is readable then is the end of the connection.
  bool is_stale() {
    if (!socket_.is_open()) return false;
    pollfd one{socket_.native_handle(), POLLIN, 0};
    return ::poll(&one, 1, 0) > 0;
  }

  Status connect() {
    Code code;
    asio::ip::tcp::resolver resolver(context_);
    const auto found = resolver.resolve(address_.host, std::to_string(address_.port), code);
    if (code) return unavailable(fmt::format("server {}: {}", options_.url, code.message()));
    asio::connect(socket_, found, code);
    if (code)
      return unavailable(fmt::format("server {}: {}; start one with 'quern serve', or name it with --server",
                                     options_.url, code.message()));
    socket_.set_option(asio::ip::tcp::no_delay(true), code);
    socket_.non_blocking(true, code);
    return {};
  }

  Result<HttpAnswer> exchange_once(std::string_view method, std::string_view target, std::string_view header_lines,
                                   Pieces body) {
    uint64_t size = 0;
    for (const auto& piece : body) size += piece.size();
    head_.clear();
    fmt::format_to(std::back_inserter(head_), "{} {} HTTP/1.1\r\nHost: {}\r\n", method, target, address_.authority);
    if (!options_.key.empty()) head_ += "Authorization: Bearer " + options_.key + "\r\n";
    if (size > 0 || method == "POST" || method == "PUT") head_ += fmt::format("Content-Length: {}\r\n", size);
    head_.append(header_lines).append("\r\n");
    std::vector<asio::const_buffer> pieces{asio::buffer(head_)};
    for (const auto& piece : body) pieces.push_back(asio::buffer(piece.data(), piece.size()));
    Code written, code;
    asio::write(stream_, pieces, written);
    if (written == asio::error::timed_out) return lost("send", written);

    // A server that refuses early answers and closes while the body is still being sent: its answer says more than
    // the broken pipe.
    http::response_parser<http::empty_body> parser;
    parser.header_limit(kLargestHeader);
    parser.body_limit(boost::none);
    do {  // 100 Continue and the like stand before the answer
      http::read_header(stream_, buffer_, parser, code);
    } while (!code && parser.get().result_int() / 100 == 1);
    if (code) return lost(written ? "send" : "receive", written ? written : code);
    return read_body(parser, written);
  }

  template <class Parser>
  Result<HttpAnswer> read_body(const Parser& parser, const Code& written) {
    const auto& header = parser.get();
    HttpAnswer answer;
    answer.status = static_cast<int>(header.result_int());
    answer.request = header["Quern-Request"];
    const auto length = parser.content_length();
    const bool no_body = answer.status == 204 || answer.status == 304;
    if (!length && !no_body)
      return unavailable(fmt::format("server {}: answers without a length; is it Quern?", options_.url));
    const uint64_t size = no_body ? 0 : *length;
    if (size > kLargestAnswer)
      return exhausted(
          fmt::format("server {}: answer of {} bytes; at most {} are read", options_.url, size, kLargestAnswer));
    answer.body.resize(size);
    const size_t here = std::min<size_t>(buffer_.size(), size);
    if (here > 0) std::memcpy(answer.body.data(), buffer_.data().data(), here);
    buffer_.consume(here);
    Code code;
    for (size_t have = here; have < size && !code;)
      have += stream_.read_some(asio::buffer(answer.body.data() + have, size - have), code);
    if (code) return lost("receive", code);
    answer.json_bytes = size;
    if (const std::string text = header["Inference-Header-Content-Length"]; !text.empty()) {
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), answer.json_bytes);
      if (problem != std::errc() || end != text.data() + text.size() || answer.json_bytes > size)
        return unavailable(fmt::format("server {}: Inference-Header-Content-Length '{}' is no part of {} bytes",
                                       options_.url, text, size));
    }
    if (written || !parser.keep_alive()) close();
    return answer;
  }

  // Constant after construction.
  Options options_;
  Address address_;
  // One thread at a time.
  asio::io_context context_{1};
  asio::ip::tcp::socket socket_{context_};
  TimedStream stream_{socket_};
  boost::beast::flat_buffer buffer_;
  std::string head_;
};

Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::create(Options options) {
  QUERN_TRY(auto address, parse_address(options.url));
  for (const char c : options.key)
    if (c <= ' ' || c == 0x7f) return invalid("key: has a space or a control character; give the key alone");
  if (options.url.ends_with('/')) options.url.pop_back();
  return Client(std::make_unique<Connection>(std::move(options), std::move(address)));
}

Result<HttpAnswer> Client::send(std::string_view method, std::string_view target, std::string_view header_lines,
                                Pieces body) {
  return connection_->exchange(method, target, header_lines, body);
}

Result<HttpAnswer> Client::call(std::string_view method, const std::string& target, std::string_view header_lines,
                                Pieces body) {
  QUERN_TRY(auto answer, send(method, target, header_lines, body));
  if (answer.status / 100 != 2) return error_of(answer);
  return answer;
}

Result<InferAnswer> Client::infer(const InferRequest& request) {
  const std::string json = infer_json(request);
  std::vector<std::span<const std::byte>> body{as_bytes_of(json)};
  for (const TensorView& input : request.inputs)
    if (!input.bytes.empty()) body.push_back(input.bytes);
  std::string target = "/v2/models/" + percent_encode(request.function);
  if (!request.version.empty()) target += "/versions/" + percent_encode(request.version);
  const std::string lines = fmt::format(
      "Content-Type: application/octet-stream\r\n"
      "Inference-Header-Content-Length: {}\r\n",
      json.size());
  QUERN_TRY(auto answer, call("POST", target + "/infer", lines, body));
  return read_infer_answer(std::move(answer));
}

Result<FunctionInfo> Client::deploy(const std::string& name, std::span<const std::byte> tar) {
  const std::array body{tar};
  QUERN_TRY(auto answer,
            call("PUT", "/v1/functions/" + percent_encode(name), "Content-Type: application/x-tar\r\n", body));
  return read_function(answer);
}

Result<FunctionInfo> Client::function(const std::string& name) {
  QUERN_TRY(auto answer, call("GET", "/v1/functions/" + percent_encode(name)));
  return read_function(answer);
}

Result<Listed<FunctionInfo>> Client::functions() {
  QUERN_TRY(auto answer, call("GET", "/v1/functions"));
  return read_functions(answer);
}

Result<Listed<DeviceInfo>> Client::devices() {
  QUERN_TRY(auto answer, call("GET", "/v1/devices"));
  return read_devices(answer);
}

Result<Listed<RequestInfo>> Client::requests() {
  QUERN_TRY(auto answer, call("GET", "/v1/requests"));
  return read_requests(answer);
}

Result<std::string> Client::why(const std::string& request) {
  QUERN_TRY(auto answer, call("GET", "/v1/requests/" + percent_encode(request)));
  return std::string(as_text(answer.body));
}

Result<std::string> Client::memory() {
  QUERN_TRY(auto answer, call("GET", "/v1/memory"));
  return std::string(as_text(answer.body));
}

Result<std::string> Client::accounts(const std::string& by) {
  QUERN_TRY(auto answer, call("GET", "/v1/accounts?by=" + percent_encode(by)));
  return std::string(as_text(answer.body));
}

Result<std::string> Client::profile(const std::string& name) {
  QUERN_TRY(auto answer, call("GET", "/v1/functions/" + percent_encode(name) + "/profile"));
  return std::string(as_text(answer.body));
}

Result<std::string> Client::trace(uint32_t seconds) {
  QUERN_TRY(auto answer, call("GET", fmt::format("/v1/trace?seconds={}", seconds)));
  return std::string(as_text(answer.body));
}

Status Client::end_trace() {
  QUERN_TRY(call("DELETE", "/v1/trace"));
  return {};
}

Status Client::keep(const std::string& name, const std::string& stage, const std::string& lease) {
  const std::string path = "/v1/functions/" + percent_encode(name) + "/keep";
  if (stage.empty()) {
    QUERN_TRY(call("DELETE", path));
    return {};
  }
  QUERN_TRY(call("POST", path + "?stage=" + percent_encode(stage) + "&for=" + percent_encode(lease)));
  return {};
}

Status Client::cancel(const std::string& request) {
  QUERN_TRY(call("DELETE", "/v1/requests/" + percent_encode(request)));
  return {};
}

Status Client::remove(const std::string& name) {
  QUERN_TRY(call("DELETE", "/v1/functions/" + percent_encode(name)));
  return {};
}

Result<std::string> Client::history(const std::string& name) {
  QUERN_TRY(auto answer, call("GET", "/v1/functions/" + percent_encode(name) + "/history"));
  return std::string(as_text(answer.body));
}

Result<FunctionInfo> Client::rollback(const std::string& name) {
  QUERN_TRY(auto answer, call("POST", "/v1/functions/" + percent_encode(name) + "/rollback"));
  return read_function(answer);
}

Result<std::string> Client::set(const std::string& name, const std::string& changes) {
  const std::array body{as_bytes_of(changes)};
  QUERN_TRY(auto answer,
            call("PATCH", "/v1/functions/" + percent_encode(name), "Content-Type: application/json\r\n", body));
  return std::string(as_text(answer.body));
}

Result<std::string> Client::put_object(std::span<const std::byte> bytes) {
  const std::array body{bytes};
  QUERN_TRY(auto answer, call("PUT", "/v1/objects", "Content-Type: application/octet-stream\r\n", body));
  return read_stored(answer);
}

Result<Bytes> Client::get_object(const std::string& id, bool keep) {
  QUERN_TRY(auto answer, call("GET", "/v1/objects/" + percent_encode(id) + (keep ? "?keep=true" : "")));
  return std::move(answer.body);
}

Result<Listed<ObjectInfo>> Client::objects() {
  QUERN_TRY(auto answer, call("GET", "/v1/objects"));
  return read_objects(answer);
}

Status Client::remove_object(const std::string& id) {
  QUERN_TRY(call("DELETE", "/v1/objects/" + percent_encode(id)));
  return {};
}

Result<bool> Client::is_ready() {
  QUERN_TRY(auto answer, send("GET", "/v2/health/ready", "", {}));
  return answer.status == 200;
}

}  // namespace quern::client
