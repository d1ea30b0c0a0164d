// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/result.h"
#include "base/time.h"
#include "function/plan.h"

namespace quern::client {

/// Where the server is and who calls.
struct Options {
  std::string url = "http://127.0.0.1:8080";
  std::string key;                            ///< sent as `Authorization: Bearer`; empty: none
  Duration timeout = Duration::seconds(120);  ///< of one call, its whole life; more than a build may take
};

/// A tensor that lies in memory of someone else, or is an object of the server.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::string object = {};      ///< its id; there are no bytes then
  std::string expires_in = {};  ///< of an output that stays: how long, as "60s"
};

/// One call of a function.
struct InferRequest {
  std::string function;
  std::string version;             ///< empty: the current one
  std::string id;                  ///< comes back with the answer
  std::vector<TensorView> inputs;  ///< sent as binary, straight from where they are
  std::map<std::string, ParameterValue> parameters;
  std::vector<std::string> outputs;  ///< in this order; empty: all
  /// Of `outputs`, those that stay on the server as objects, and for how long; nothing: as long as is usual there.
  std::map<std::string, std::optional<Duration>> kept;
};

/// Its answer. `outputs` look into `body`, so that what came from the socket is not copied again.
struct InferAnswer {
  std::string version;
  std::string request;  ///< the server's id of it
  std::string parameters_json;
  Bytes body;
  std::vector<TensorView> outputs;
};

/// What the server knows of a function.
struct FunctionInfo {
  struct Tensor {
    std::string name;
    Dtype dtype = Dtype::kFp32;
    Shape shape;                           ///< -1 where a request decides
    std::vector<std::string> expressions;  ///< the shape as the manifest has it, over its dims; empty: not told
  };
  struct Dim {
    std::string name;
    std::optional<int64_t> value;  ///< fixed, or the default
  };
  struct Param {
    std::string name;
    std::string dtype;
  };
  struct Let {
    std::string name, expression;  ///< over dims, params and those before it
  };
  struct Kernel {
    std::string entry;                       ///< or its label
    std::vector<std::string> global, local;  ///< as the manifest has them; local empty: the driver picks
    bool sliceable = false;
    std::string reason;  ///< why it is not
  };
  std::string name, version, created_at;
  std::string state;  ///< of one in a list: ready, starting or damaged
  std::string error;  ///< why it is not ready
  std::vector<Dim> dims;
  std::vector<Param> params;
  std::vector<Let> lets;
  std::vector<Tensor> inputs, outputs;
  std::vector<Kernel> kernels;        ///< each with its sizes once
  std::vector<std::string> warnings;  ///< of a deploy only
  bool is_new = false;                ///< of a deploy only: false if it was the current version already
  bool has_new_settings = false;      ///< of a deploy only: it was, and with other settings
  std::string json;                   ///< as it came
};

struct DeviceInfo {
  std::string name, driver, model;
  bool is_up = false;
  uint64_t memory_bytes = 0;
  uint32_t units = 0;
  std::vector<int> cores;
  uint64_t executors = 0, running = 0, runs_ended = 0, device_time_ns = 0;
};

struct RequestInfo {
  std::string id, function, tenant;
  std::string state;  ///< queued, placed, running, ended
  std::string device, end;
  uint64_t age_ns = 0;
};

struct ObjectInfo {
  std::string id;
  uint64_t bytes = 0;
  std::string kind;        ///< stored, lease
  std::string created_at;  ///< of a stored one
  std::string expires_in;  ///< of a lease
};

/// A list as it is for people, and as it came for programs.
template <class T>
struct Listed {
  std::vector<T> items;
  std::string json;
};

/// A plain answer.
struct HttpAnswer {
  int status = 0;
  std::string request;      ///< Quern-Request
  uint64_t json_bytes = 0;  ///< Inference-Header-Content-Length; the whole body if there was none
  Bytes body;
};

/// A caller of Quern's HTTP API over one connection that is kept open. One thread at a time.
///
/// Errors are the server's, code and text, or kUnavailable if it cannot be reached, kDeadline if it does not answer in
/// time. A call whose connection broke is not sent again: it may have run.
class Client {
 public:
  /// Does not connect yet. kInvalid for an address that is not http://HOST[:PORT]; kUnsupported for https.
  static Result<Client> create(Options options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  Result<InferAnswer> infer(const InferRequest& request);
  /// `tar` is that of a function's folder (pack_folder).
  Result<FunctionInfo> deploy(const std::string& name, std::span<const std::byte> tar);
  Result<FunctionInfo> function(const std::string& name);
  Result<Listed<FunctionInfo>> functions();
  Result<Listed<DeviceInfo>> devices();
  Result<Listed<RequestInfo>> requests();
  /// What became of a request and why it took so long, as JSON.
  Result<std::string> why(const std::string& request);
  /// What is in the memory of devices and host, as JSON.
  Result<std::string> memory();
  /// What was used since the server started, by "tenant", "function" or "device", as JSON.
  Result<std::string> accounts(const std::string& by);
  /// How long the kernels and gaps of a function take, as JSON. `name` may be NAME@VERSION.
  Result<std::string> profile(const std::string& name);
  /// What happens on the devices for so many seconds, as Chrome's trace events; takes as long. See timeline.h.
  Result<std::string> trace(uint32_t seconds);
  /// The trace that another connection waits for ends now: it gets what there is. kNotFound if there is none.
  Status end_trace();
  /// Keeps a function at a stage ("context", "host", "hot") for a while ("60s"); an empty stage ends it.
  Status keep(const std::string& name, const std::string& stage, const std::string& lease);
  /// By the id that `requests` shows. kNotFound if it has ended, or is another tenant's.
  Status cancel(const std::string& request);
  Status remove(const std::string& name);
  /// As it came: `versions` and `history`.
  Result<std::string> history(const std::string& name);
  /// `name` may be NAME@VERSION; else it is the one deployed before the current one.
  Result<FunctionInfo> rollback(const std::string& name);
  /// `changes` is a JSON object of values by path. The answer as it came.
  Result<std::string> set(const std::string& name, const std::string& changes);
  /// Stores the bytes; their id.
  Result<std::string> put_object(std::span<const std::byte> bytes);
  /// Unless `keep`, a lease is over when it was read.
  Result<Bytes> get_object(const std::string& id, bool keep);
  Result<Listed<ObjectInfo>> objects();
  Status remove_object(const std::string& id);
  /// True once the server takes calls.
  Result<bool> is_ready();

  /// Anything else: a method, a target that is percent-encoded already, header lines ("Name: value\r\n") and a body in
  /// pieces. The answer may have any status.
  Result<HttpAnswer> send(std::string_view method, std::string_view target, std::string_view header_lines,
                          std::span<const std::span<const std::byte>> body);

 private:
  class Connection;
  explicit Client(std::unique_ptr<Connection> connection);
  /// The answer if its status is 2xx, else the server's error.
  Result<HttpAnswer> call(std::string_view method, const std::string& target, std::string_view header_lines = "",
                          std::span<const std::span<const std::byte>> body = {});
  std::unique_ptr<Connection> connection_;
};

/// A function's folder as it is sent: every regular file whose name, and whose folders' names, start with no dot.
struct Packed {
  std::string
      name;  ///< what function.yaml says, else that of the folder: the server knows better what is wrong with it
  Bytes tar;
};
/// kInvalid if there is no function.yaml, or the folder holds a link; kExhausted past the limits of function/tar.h.
Result<Packed> pack_folder(const std::string& folder);

/// As one segment of a path: everything but letters, digits, `-._~` becomes %XX.
std::string percent_encode(std::string_view text);

}  // namespace quern::client
