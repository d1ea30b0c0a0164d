// SPDX-License-Identifier: Apache-2.0
#include "client/address.h"

#include <fmt/format.h>

#include <charconv>

namespace quern::client {

Result<Address> parse_address(std::string_view url) {
  const auto wrong = [&](std::string_view what) {
    return invalid(fmt::format("server '{}': {}; write it as http://127.0.0.1:8080", url, what));
  };
  std::string_view rest = url;
  if (rest.starts_with("https://"))
    return unsupported(fmt::format("server '{}': TLS is not built yet; use http:// on this machine, or a tunnel", url));
  if (!rest.starts_with("http://")) return wrong("is no http:// address");
  rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  for (const char c : rest)
    if (c <= ' ' || c == 0x7f || c == '/' || c == '@' || c == '?' || c == '#')
      return wrong("has more than a host and a port");
  Address address;
  address.authority = rest;
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string_view::npos;
  if (rest.starts_with('[') && bracket == std::string_view::npos) return wrong("has a bracket that does not end");
  const size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  address.host = bracket == std::string_view::npos ? rest.substr(0, colon) : rest.substr(1, bracket - 1);
  if (address.host.empty()) return wrong("names no host");
  if (colon != std::string_view::npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
    if (problem != std::errc() || end != digits.data() + digits.size() || address.port == 0)
      return wrong(fmt::format("port '{}' is none", digits));
  }
  return address;
}

}  // namespace quern::client
