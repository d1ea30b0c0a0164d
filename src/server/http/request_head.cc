// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_head.h"

#include <fmt/format.h>

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <charconv>

namespace quern::server {
namespace {

namespace http = boost::beast::http;
using Code = boost::system::error_code;
using View = boost::core::string_view;

std::string_view std_view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Takes the few fields we want as views, where Beast's own request_parser would keep a copy of each.
class Parser : public http::basic_parser<true> {
 public:
  Parser(std::string_view bytes, RequestHead& into) : bytes_(bytes), head_(into) {
    eager(false);
    skip(true);  // the body is read elsewhere
    header_limit(static_cast<uint32_t>(bytes.size() + 1));
    body_limit(boost::none);
  }

  std::optional<Failure> failure;

 private:
  void on_request_impl(http::verb verb, boost::beast::string_view method, boost::beast::string_view target, int version,
                       Code&) override {
    switch (verb) {
      case http::verb::get:
        head_.method = Method::kGet;
        break;
      case http::verb::head:
        head_.method = Method::kHead;
        break;
      case http::verb::post:
        head_.method = Method::kPost;
        break;
      case http::verb::put:
        head_.method = Method::kPut;
        break;
      case http::verb::patch:
        head_.method = Method::kPatch;
        break;
      case http::verb::delete_:
        head_.method = Method::kDelete;
        break;
      default:
        head_.method = Method::kOther;
        break;
    }
    head_.method_text = std_view(method);
    head_.target = std_view(target);
    head_.is_http_10 = version < 11;
  }

  void on_field_impl(http::field field, boost::beast::string_view name, boost::beast::string_view value,
                     Code& ec) override {
    // A value folded over lines is in a buffer of Beast's that ends with this call.
    if (!value.empty() && (value.data() < bytes_.data() || value.data() >= bytes_.data() + bytes_.size()))
      return fail(ec, invalid(fmt::format("header {}: folded over lines", std_view(name))));
    switch (field) {
      case http::field::authorization: {
        if (has_authorization_) return fail(ec, invalid("header Authorization: given twice"));
        has_authorization_ = true;
        std::string_view text = std_view(value);
        constexpr std::string_view kScheme = "Bearer ";
        if (text.size() < kScheme.size() ||
            !boost::beast::iequals(value.substr(0, kScheme.size()), View(kScheme.data(), kScheme.size())))
          return fail(ec, Failure(denied("header Authorization: must be 'Bearer KEY'"), 401));
        text.remove_prefix(kScheme.size());
        while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
        head_.key = text;
        return;
      }
      case http::field::host:
        if (!head_.host.empty()) return fail(ec, invalid("header Host: given twice"));
        head_.host = std_view(value);
        return;
      case http::field::origin:
        head_.origin = std_view(value);
        return;
      case http::field::content_encoding:
        if (!boost::beast::iequals(value, "identity")) head_.content_encoding = std_view(value);
        return;
      case http::field::transfer_encoding:
        head_.is_chunked = true;
        return;
      case http::field::expect:
        if (!boost::beast::iequals(value, "100-continue"))
          return fail(ec, Failure(invalid("header Expect: only 100-continue is known"), 417));
        head_.expects_continue = true;
        return;
      default:
        break;
    }
    if (field == http::field::unknown && boost::beast::iequals(name, "Inference-Header-Content-Length")) {
      uint64_t length = 0;
      const char* end = value.data() + value.size();
      const auto [last, problem] = std::from_chars(value.data(), end, length);
      if (problem != std::errc() || last != end || head_.json_length)
        return fail(ec, invalid("header Inference-Header-Content-Length: must be one number of bytes"));
      head_.json_length = length;
    }
  }

  void on_header_impl(Code&) override {}
  void on_response_impl(int, boost::beast::string_view, int, Code&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, Code&) override {}
  std::size_t on_body_impl(boost::beast::string_view body, Code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, boost::beast::string_view, Code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, boost::beast::string_view body, Code&) override { return body.size(); }
  void on_finish_impl(Code&) override {}

  void fail(Code& ec, Failure what) {
    failure = std::move(what);
    ec = http::error::bad_value;
  }

  std::string_view bytes_;
  RequestHead& head_;
  bool has_authorization_ = false;
};

}  // namespace

size_t find_head_end(std::string_view bytes, size_t from) {
  const size_t at = bytes.find("\r\n\r\n", from > 3 ? from - 3 : 0);
  return at == std::string_view::npos ? 0 : at + 4;
}

std::optional<Failure> parse_head(std::string_view bytes, RequestHead& into) {
  into = {};
  Parser parser(bytes, into);
  Code ec;
  const size_t used = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
  if (parser.failure) return parser.failure;
  if (ec || !parser.is_header_done())
    return Failure(invalid(fmt::format("malformed HTTP request: {}", ec ? ec.message() : "the head does not end")),
                   400);
  into.size = used;
  into.keeps_alive = parser.keep_alive();
  into.is_chunked = into.is_chunked || parser.chunked();
  if (const auto length = parser.content_length()) into.content_length = *length;
  return std::nullopt;
}

}  // namespace quern::server
