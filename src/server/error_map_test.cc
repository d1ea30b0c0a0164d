// SPDX-License-Identifier: Apache-2.0
#include "server/error_map.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern::server {
namespace {

TEST(ErrorMap, Statuses) {
  const std::vector<std::pair<std::string, int>> rows = {{"invalid", 400},     {"denied", 403},   {"not_found", 404},
                                                         {"conflict", 409},    {"faulted", 422},  {"exhausted", 429},
                                                         {"cancelled", 499},   {"internal", 500}, {"unsupported", 501},
                                                         {"unavailable", 503}, {"deadline", 504}};
  for (const auto& [name, status] : rows) {
    EXPECT_EQ(http_status(*error_code_of(name)), status) << name;
    EXPECT_NE(reason_of(status), "Unknown");
  }
}

TEST(ErrorMap, RetryAfterIsWholeSecondsUpwards) {
  Failure failure(exhausted("x"));
  EXPECT_EQ(header_lines_of(failure), "Retry-After: 1\r\n");
  failure.retry_after = Duration::millis(2001);
  EXPECT_EQ(header_lines_of(failure), "Retry-After: 3\r\n");
  EXPECT_EQ(header_lines_of(Failure(invalid("x"))), "");
}

TEST(ErrorMap, TextIsAlwaysJson) {
  std::string out;
  append_error_json(out, invalid(std::string("a\"\\\n\x01\x7f\xc3\xa9\xff\xc0\x80\xed\xa0\x80|", 15)), "r1");
  EXPECT_EQ(
      out,
      "{\"error\":\"a\\\"\\\\\\n\\u0001\\u007f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
      "\xef\xbf\xbd|\",\"code\":\"invalid\",\"request\":\"r1\"}");
}

}  // namespace
}  // namespace quern::server
