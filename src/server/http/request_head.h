// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "server/error_map.h"

namespace quern::server {

enum class Method : uint8_t { kGet, kHead, kPost, kPut, kPatch, kDelete, kOther };

/// The head of an HTTP/1.x request, as far as we look at it. Views into the bytes it was read from.
struct RequestHead {
  Method method = Method::kOther;
  std::string_view method_text, target;
  bool is_http_10 = false;
  bool keeps_alive = true;
  bool is_chunked = false;  ///< any Transfer-Encoding
  bool expects_continue = false;
  std::optional<uint64_t> content_length;
  std::optional<uint64_t> json_length;  ///< Inference-Header-Content-Length
  std::string_view key;                 ///< of `Authorization: Bearer KEY`
  std::string_view content_encoding;    ///< "" for identity
  std::string_view host, origin;        ///< "" if absent
  size_t size = 0;                      ///< bytes of the head, the empty line included
};

/// Where the head ends in `bytes` (behind its empty line), looking from `from` on; 0 if it does not yet.
size_t find_head_end(std::string_view bytes, size_t from);

/// Reads a whole head. Malformed is kInvalid, 400; an expectation we do not know 417.
std::optional<Failure> parse_head(std::string_view bytes, RequestHead& into);

}  // namespace quern::server
