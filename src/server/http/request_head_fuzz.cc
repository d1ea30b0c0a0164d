// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "server/http/request_head.h"
#include "server/http/router.h"

void fuzz_one(std::span<const std::byte> input) {
  using namespace quern;
  const std::string_view bytes = as_text(input);
  const size_t end = server::find_head_end(bytes, 0);
  if (end == 0) return;
  server::RequestHead head;
  if (server::parse_head(bytes.substr(0, end), head)) return;
  const auto is_inside = [&](std::string_view view) {
    return view.empty() || (view.data() >= bytes.data() && view.data() + view.size() <= bytes.data() + end);
  };
  QUERN_CHECK(head.size == end, "a head is read whole");
  QUERN_CHECK(is_inside(head.target) && is_inside(head.key) && is_inside(head.content_encoding), "views stay inside");
  server::Route route;
  if (const auto failure = server::find_route(head.method, head.target, route)) {
    std::string out;
    server::append_error_json(out, failure->error, "r");
  }
}

FuzzPlan fuzz_plan() {
  FuzzPlan plan;
  plan.seeds = {
      "POST /v2/models/saxpy%40abcdef/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n"
      "Inference-Header-Content-Length: 5\r\nAuthorization: Bearer k\r\nExpect: 100-continue\r\n\r\n",
      "GET http://h/v1/functions?x HTTP/1.0\r\nConnection: keep-alive\r\nContent-Encoding: gzip\r\n\r\n",
      "PUT /v1/functions/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: a\r\n b\r\n\r\n",
  };
  plan.words = {"\r\n",
                ": ",
                " ",
                "\t",
                "%",
                "%40",
                "/",
                "@",
                "Content-Length: 1\r\n",
                "Transfer-Encoding: chunked\r\n",
                "HTTP/1.1",
                "\r\n ",
                "18446744073709551616"};
  return plan;
}
