// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace quern::server {

/// The HTTP status of a code: the one table of the front doors, told to callers in api/errors.md.
int http_status(ErrorCode code);

/// "Not Found"
std::string_view reason_of(int status);

/// An error on its way to a caller over HTTP. What HTTP itself has a better word for (405, 411, 413 …) says so in
/// `status`; all else follows the table.
struct Failure {
  Error error;
  int status = 0;               ///< 0: that of the table
  Duration retry_after = {0};   ///< shown with 429 and 503, at least a second
  std::string_view allow = {};  ///< with 405: the methods that would do

  Failure(Error e, int s = 0) : error(std::move(e)), status(s) {}
};

int status_of(const Failure& failure);

/// The header lines that belong to a failure: Retry-After, Allow, WWW-Authenticate, each with its line end.
std::string header_lines_of(const Failure& failure);

/// {"error": …, "code": …, "request": …}: every error, everywhere.
void append_error_json(std::string& out, const Error& error, std::string_view request_id);

/// A JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD, for what strangers send comes back in errors.
void append_json_string(std::string& out, std::string_view text);

}  // namespace quern::server
