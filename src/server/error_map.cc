// SPDX-License-Identifier: Apache-2.0
#include "server/error_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace quern::server {
namespace {

struct Row {
  ErrorCode code;
  int status;
};

constexpr std::array<Row, 11> kRows = {{
    {ErrorCode::kInvalid, 400},
    {ErrorCode::kNotFound, 404},
    {ErrorCode::kConflict, 409},
    {ErrorCode::kDenied, 403},  // 401 where a key would help: the caller of authenticate says so
    {ErrorCode::kExhausted, 429},
    {ErrorCode::kDeadline, 504},
    {ErrorCode::kCancelled, 499},
    {ErrorCode::kUnavailable, 503},
    {ErrorCode::kUnsupported, 501},
    {ErrorCode::kFaulted, 422},
    {ErrorCode::kInternal, 500},
}};

// The length of the UTF-8 sequence that starts `text`; 0 if there is none.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i)
    if (byte(i) >> 6 != 2) return 0;
  if (size == 2 && first < 0xc2) return 0;  // too long a form
  if (size == 3 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f))) return 0;  // surrogates
  if (size == 4 && ((first == 0xf0 && byte(1) < 0x90) || first > 0xf4 || (first == 0xf4 && byte(1) > 0x8f))) return 0;
  return size;
}

}  // namespace

int http_status(ErrorCode code) {
  for (const Row& row : kRows)
    if (row.code == code) return row.status;
  return 500;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

int status_of(const Failure& failure) { return failure.status ? failure.status : http_status(failure.error.code); }

std::string header_lines_of(const Failure& failure) {
  const int status = status_of(failure);
  std::string lines;
  if (status == 429 || status == 503) {
    const int64_t seconds = failure.retry_after.ns / 1'000'000'000 + (failure.retry_after.ns % 1'000'000'000 > 0);
    lines += fmt::format("Retry-After: {}\r\n", std::max<int64_t>(1, seconds));
  }
  if (status == 401) lines += "WWW-Authenticate: Bearer realm=\"quern\"\r\n";
  if (status == 405) lines += fmt::format("Allow: {}\r\n", failure.allow);
  return lines;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const char c = text[0];
    size_t size = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[c & 15];
    } else if (size = sequence_length(text); size > 0) {
      out.append(text.substr(0, size));
    } else {
      out += "\xef\xbf\xbd";
      size = 1;
    }
    text.remove_prefix(size);
  }
  out += '"';
}

void append_error_json(std::string& out, const Error& error, std::string_view request_id) {
  out += "{\"error\":";
  append_json_string(out, error.text);
  out += ",\"code\":";
  append_json_string(out, name_of(error.code));
  out += ",\"request\":";
  append_json_string(out, request_id);
  out += '}';
}

}  // namespace quern::server
