// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quern::client {

/// http://HOST[:PORT][/]; a host in brackets is an IPv6 address.
struct Address {
  std::string host;  ///< without brackets
  uint16_t port = 80;
  std::string authority;  ///< as the Host header has it
};
Result<Address> parse_address(std::string_view url);

}  // namespace quern::client
