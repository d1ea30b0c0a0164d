// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "daemon/accounts.h"
#include "daemon/daemon.h"
#include "daemon/profile_view.h"
#include "daemon/story.h"
#include "daemon/trace.h"
#include "os/event.h"
#include "os/guarded.h"

namespace quern::server {

/// A daemon for the tests of the front door: it checks requests as the real one does, and "runs" a function by copying
/// input i to output i. With `holds` set, a call waits for `release` or a cancel.
class FakeDaemon : public daemon::Daemon {
 public:
  FakeDaemon() : held_event_(*os::Event::create()), unread_event_(*os::Event::create()) {
    tenant_.name = "default";
    other_.name = "other";
    add("echo", {{"x", Dtype::kFp32}}, {{"y", Dtype::kFp32}});
    add("pair", {{"a", Dtype::kInt64}, {"b", Dtype::kFp32}}, {{"c", Dtype::kInt64}, {"d", Dtype::kFp32}});
    add("half", {{"x", Dtype::kFp16}}, {{"y", Dtype::kFp16}});
  }

  // Set before the server starts.
  std::string key;        ///< "" takes everyone
  std::string other_key;  ///< of a second tenant; "": there is none
  bool ready = true;
  std::optional<Error> refusal;     ///< of `admits`
  std::optional<Error> call_error;  ///< how calls end
  std::optional<Error> deploy_error;
  std::optional<Error> upload_refusal;  ///< before its first byte
  std::optional<Error> write_error;     ///< of the disk
  std::vector<daemon::FunctionProblem> broken;
  bool holds = false;
  /// Told "prepare", "submit" and "devices" by the thread that asks for it, and may block.
  std::function<void(std::string_view what)> on_call = [](std::string_view) {};
  // Any thread.
  std::atomic<size_t> largest_piece{0};  ///< of uploads
  os::Guarded<std::vector<std::string>> cancelled;
  os::Guarded<Bytes> deployed;

  /// Waits until a call is held.
  bool wait_held() { return held_event_.wait(Duration::seconds(20)) && held_event_.drain(); }
  /// Waits until something that nobody waits for is cancelled.
  bool wait_cancelled() { return cancelled_event_.wait(Duration::seconds(20)) && cancelled_event_.drain(); }
  void release() {
    auto held = held_.with([](auto& calls) { return std::exchange(calls, {}); });
    for (auto& [id, call] : held) finish(std::move(call.first), call.second);
    auto deploys = deploys_.with([](auto& all) { return std::exchange(all, {}); });
    for (auto& [id, done] : deploys) done(daemon::Deployed{functions_[0], true, false, {}});
  }
  /// Waits until an object that was sent came back.
  bool wait_unread() { return unread_event_.wait(Duration::seconds(20)) && unread_event_.drain(); }

  void stop(Duration) override {}
  Result<const daemon::Tenant*> authenticate(std::string_view given) const override {
    if (given == key) return &tenant_;
    if (!other_key.empty() && given == other_key) return &other_;
    return denied("key: unknown");
  }
  Result<daemon::FunctionRef> find(const daemon::Tenant&, std::string_view name,
                                   std::string_view version) const override {
    for (const auto& function : functions_)
      if (function->name == name && function->version.starts_with(version)) return function;
    return not_found("function " + std::string(name) + ": there is none; did you mean 'echo'?");
  }
  std::vector<daemon::FunctionRef> functions(const daemon::Tenant&) const override { return functions_; }
  std::vector<daemon::DeviceStatus> devices() const override {
    on_call("devices");
    daemon::DeviceStatus device;
    device.name = "cpu0";
    device.cores = {0, 1};
    return {device};
  }
  daemon::Counters counters() const override {
    daemon::Counters counters;
    counters.copied_bytes = copied_;
    return counters;
  }
  bool is_ready() const override { return ready; }
  std::vector<daemon::FunctionProblem> problems(const daemon::Tenant&) const override { return broken; }
  std::vector<daemon::FunctionRef> versions(const daemon::Tenant& tenant, std::string_view name) const override {
    const auto function = find(tenant, name, "");
    return function.ok() ? std::vector{*function} : std::vector<daemon::FunctionRef>();
  }
  void stop_deploys() override {}
  Result<std::unique_ptr<daemon::Upload>> begin_deploy(const daemon::Tenant&, uint64_t) override {
    if (upload_refusal) return *upload_refusal;
    return std::unique_ptr<daemon::Upload>(std::make_unique<FakeUpload>(*this));
  }
  void deploy(const daemon::Tenant&, std::string id, std::string name, std::unique_ptr<daemon::Upload> tar,
              std::function<void(Result<daemon::Deployed>)> done) override {
    deployed.with([&](Bytes& bytes) { bytes = std::move(static_cast<FakeUpload&>(*tar).bytes); });
    if (deploy_error) return done(*deploy_error);
    if (holds) {
      deploys_.with([&](auto& deploys) { deploys.emplace(std::move(id), std::move(done)); });
      held_event_.signal();
      return;
    }
    auto function = std::make_shared<daemon::Function>(*functions_[0]);
    function->name = std::move(name);
    done(daemon::Deployed{function, true, false, {"function.yaml:3:1: warning: odd"}});
  }
  void abandon_deploy(const std::string& id) override {
    auto node = deploys_.with([&](auto& deploys) { return deploys.extract(id); });
    cancelled.with([&](auto& ids) { ids.push_back(id); });
    if (node) node.mapped()(Error{ErrorCode::kCancelled, "deploy " + id + ": nobody waited for it"});
    cancelled_event_.signal();
  }
  void remove(const daemon::Tenant&, std::string name, std::function<void(Status)> done) override {
    done(name == "echo" ? Status() : Status(not_found("function " + name + ": there is none")));
  }
  void history(const daemon::Tenant& tenant, std::string name,
               std::function<void(Result<daemon::History>)> done) override {
    const auto function = find(tenant, name, "");
    if (!function.ok()) return done(function.error());
    const std::string& version = (*function)->version;
    done(daemon::History{{{version, "then", true}}, {{"then", "deployed", version}}});
  }
  void rollback(const daemon::Tenant& tenant, std::string name, std::string version,
                std::function<void(Result<daemon::FunctionRef>)> done) override {
    done(find(tenant, name, version));
  }
  void set(const daemon::Tenant& tenant, std::string name, std::map<std::string, std::string> changes,
           std::function<void(Result<daemon::FunctionRef>)> done) override {
    for (const auto& [path, value] : changes)
      if (const auto changed = change_setting(Settings{}, path, value); !changed.ok()) return done(changed.error());
    done(find(tenant, name, ""));
  }
  Status admits(const daemon::Tenant&, Duration* retry_after) const override {
    if (!refusal) return {};
    *retry_after = Duration::millis(2500);
    return *refusal;
  }
  Result<std::unique_ptr<daemon::Call>> prepare(const daemon::Tenant& tenant, const daemon::FunctionRef& function,
                                                const CallSpec& spec, const daemon::CallOptions& options) override {
    on_call("prepare");
    QUERN_TRY(Binding binding, bind(function->manifest, spec));
    auto call = std::make_unique<FakeCall>();
    call->tenant = tenant.name;
    call->id = "c" + std::to_string(++calls_);
    const auto give = [&](std::string name, Dtype dtype, Shape shape) {
      uint64_t size = size_of(dtype);
      for (const int64_t n : shape) size *= static_cast<uint64_t>(n);
      call->memory.push_back(std::make_unique<Bytes>(size));
      return daemon::CallTensor{std::move(name), dtype, std::move(shape), *call->memory.back()};
    };
    for (const TensorSpec& input : spec.inputs) {
      call->inputs.push_back(give(input.name, input.dtype, input.shape));
      if (options.objects.empty() || !options.objects[call->inputs.size() - 1]) continue;
      const daemon::ObjectRef& object = options.objects[call->inputs.size() - 1];
      if (object->bytes.size() != call->inputs.back().bytes.size())
        return invalid("input " + input.name + ": object " + object->id + " has another size");
      std::copy(object->bytes.begin(), object->bytes.end(), call->inputs.back().bytes.begin());
    }
    for (const BufferDecl& buffer : function->manifest.buffers) {
      if (buffer.role != Role::kOutput) continue;
      call->outputs.push_back(give(buffer.name, buffer.dtype, {binding.dims[0]}));
      if (const auto kept = options.kept.find(buffer.name); kept != options.kept.end()) {
        call->outputs.back().object = "lease-" + sha256(call->id + buffer.name).substr(0, 32);
        call->outputs.back().lease = kept->second;
      }
    }
    return std::unique_ptr<daemon::Call>(std::move(call));
  }
  void submit(std::unique_ptr<daemon::Call> call, std::function<void(std::unique_ptr<daemon::Call>)> done) override {
    on_call("submit");
    if (!holds) return finish(std::move(call), done);
    const std::string id = call->id;
    held_.with([&](auto& calls) { calls.emplace(id, std::pair(std::move(call), std::move(done))); });
    held_event_.signal();
  }
  void cancel(const std::string& id) override {
    auto node = held_.with([&](auto& calls) { return calls.extract(id); });
    cancelled.with([&](auto& ids) { ids.push_back(id); });
    cancelled_event_.signal();
    if (node.empty()) return;
    node.mapped().first->error = Error{ErrorCode::kCancelled, "call " + id + ": cancelled"};
    node.mapped().second(std::move(node.mapped().first));
  }
  void requests(const daemon::Tenant& tenant,
                std::function<void(Result<std::vector<daemon::RequestStatus>>)> done) override {
    std::vector<daemon::RequestStatus> list;
    held_.with([&](auto& calls) {
      for (const auto& [id, call] : calls) {
        daemon::RequestStatus& one = list.emplace_back();
        one.id = id;
        one.tenant = tenant.name;
        one.function = "echo";
        one.state = "running";
        one.device = "cpu0";
      }
    });
    done(std::move(list));
  }
  void cancel(const daemon::Tenant&, const std::string& id, std::function<void(Status)> done) override {
    const bool is_there = held_.with([&](auto& calls) { return calls.contains(id); });
    if (is_there) cancel(id);
    done(is_there ? Status() : Status(not_found("request " + id + ": has ended, or never was")));
  }
  void why(const daemon::Tenant&, const std::string& id, std::function<void(Result<daemon::Story>)> done) override {
    done(not_found("request " + id + ": is none of yours, or long gone"));
  }
  void memory(const daemon::Tenant&, std::function<void(Result<std::vector<daemon::MemoryPlace>>)> done) override {
    daemon::MemoryPlace place;
    place.name = "cpu0";
    done(std::vector<daemon::MemoryPlace>{place});
  }
  void profile(const daemon::Tenant& tenant, std::string_view name, std::string_view version,
               std::function<void(Result<daemon::FunctionProfile>)> done) override {
    const auto function = find(tenant, name, version);
    if (!function.ok()) return done(function.error());
    daemon::FunctionProfile profile{(*function)->name, (*function)->version, Duration::micros(400), {}, {}};
    daemon::KernelProfile& kernel = profile.kernels.emplace_back();
    kernel.entry = "copy";
    kernel.identity = 0xabc;
    kernel.device = "cpu0";
    kernel.groups = 1000;
    kernel.samples = 3;
    kernel.mean_ps = 1500;
    kernel.p50_ps = 1250;
    kernel.launch_ns = 1250;
    kernel.reason = "has one group";
    daemon::GapProfile& gap = profile.gaps.emplace_back();
    gap.device = "cpu0";
    gap.is_between_runs = true;
    gap.samples = 4;
    gap.p50 = Duration::millis(2);
    done(std::move(profile));
  }
  void accounts(const daemon::Tenant& tenant, daemon::AccountBy by,
                std::function<void(Result<daemon::AccountTable>)> done) override {
    daemon::Accounts accounts(1, Time{0});
    daemon::Account& account = accounts.of(tenant.name, "echo", "cpu0");
    account.requests = 2;
    account.device_time_ns = 1500;
    account.waited_ns[static_cast<size_t>(daemon::Cause::kFairness)] = 700;
    done(accounts.table(tenant.name, by, Time{9}));
  }
  Status keep(const daemon::Tenant& tenant, std::string_view name, KeepWarm, Duration) override {
    QUERN_TRY(find(tenant, name, ""));
    return {};
  }
  Result<std::unique_ptr<daemon::Upload>> begin_object(const daemon::Tenant& tenant, uint64_t size_bytes) override {
    return begin_deploy(tenant, size_bytes);
  }
  void put_object(const daemon::Tenant& tenant, std::unique_ptr<daemon::Upload> upload,
                  std::function<void(Result<daemon::ObjectStatus>)> done) override {
    const Bytes& bytes = static_cast<FakeUpload&>(*upload).bytes;
    const std::string id = sha256(bytes);
    store(tenant.name, id, bytes);
    done(daemon::ObjectStatus{id, bytes.size(), false, "then", {}});
  }
  void open_objects(const daemon::Tenant& tenant, std::vector<std::string> ids,
                    std::function<void(Result<std::vector<daemon::ObjectRef>>)> done) override {
    std::vector<daemon::ObjectRef> found;
    for (const std::string& id : ids) {
      found.push_back(find_object(tenant.name, id, false));
      if (!found.back()) return done(no_object(id));
    }
    done(std::move(found));
  }
  void read_object(const daemon::Tenant& tenant, std::string id, bool keep,
                   std::function<void(Result<daemon::ObjectRef>)> done) override {
    const auto object = find_object(tenant.name, id, !keep && id.starts_with("lease-"));
    done(object ? Result<daemon::ObjectRef>(object) : no_object(id));
  }
  void unread_object(const daemon::ObjectRef& object) override {
    objects_.with([&](auto& objects) { objects[{tenant_.name, object->id}] = object; });
    unread_event_.signal();
  }
  void remove_object(const daemon::Tenant& tenant, std::string id, std::function<void(Status)> done) override {
    done(find_object(tenant.name, id, true) ? Status() : Status(no_object(id)));
  }
  void objects(const daemon::Tenant& tenant,
               std::function<void(Result<std::vector<daemon::ObjectStatus>>)> done) override {
    std::vector<daemon::ObjectStatus> list;
    objects_.with([&](auto& objects) {
      for (const auto& [key, object] : objects)
        if (key.first == tenant.name)
          list.push_back({key.second, object->bytes.size(), key.second.starts_with("lease-"), "then",
                          Duration::micros(1'500'700)});
    });
    done(std::move(list));
  }
  void keep_outputs(daemon::Call& call) override {
    for (const daemon::CallTensor& output : call.outputs)
      if (!output.object.empty()) store(static_cast<FakeCall&>(call).tenant, output.object, output.bytes);
  }
  Result<daemon::ProgramLink> join(const daemon::Tenant&, const daemon::ProgramSpec&) override {
    return unsupported("no programs here");
  }
  void leave(uint64_t) override {}
  // With `holds` set it goes on until end_trace.
  void trace(const daemon::Tenant&, std::string id, Duration length,
             std::function<void(Result<daemon::Trace>)> done) override {
    if (traced_.with([](auto& traced) { return traced.has_value(); }))
      return done(exhausted("trace: one is under way"));
    daemon::Trace trace;
    trace.to = trace.from + length;
    trace.devices = {{1, "cpu0"}};
    if (!holds) return done(std::move(trace));
    traced_.with([&](auto& traced) { traced = std::pair(std::move(id), std::move(done)); });
    held_event_.signal();
  }
  void end_trace(const std::string& id) override {
    auto ended = traced_.with([&](auto& traced) {
      return traced && traced->first == id ? std::exchange(traced, std::nullopt) : std::nullopt;
    });
    if (!ended) return;
    ended->second(daemon::Trace{});
    trace_ended_event_.signal();
  }
  void end_trace(const daemon::Tenant&, std::function<void(Status)> done) override {
    auto ended = traced_.with([&](auto& traced) { return std::exchange(traced, std::nullopt); });
    if (!ended) return done(not_found("trace: none of yours is under way"));
    ended->second(daemon::Trace{});
    done({});
  }
  bool wait_trace_ended() { return trace_ended_event_.wait(Duration::seconds(20)) && trace_ended_event_.drain(); }
  void count_copied(uint64_t bytes) override { copied_ += bytes; }

 private:
  using Done = std::function<void(std::unique_ptr<daemon::Call>)>;
  struct FakeCall : daemon::Call {
    std::string tenant;
    std::vector<std::unique_ptr<Bytes>> memory;
  };
  struct FakeUpload : daemon::Upload {
    explicit FakeUpload(FakeDaemon& of) : daemon(of) {}
    void write(Bytes piece, std::function<void(Result<Bytes>)> done) override {
      if (daemon.write_error) return done(*daemon.write_error);
      daemon.largest_piece = std::max(daemon.largest_piece.load(), piece.size());
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      done(std::move(piece));
    }
    FakeDaemon& daemon;
    Bytes bytes;
  };
  struct FakeObject : daemon::Object {
    Bytes memory;
  };
  using Tensors = std::vector<std::pair<std::string, Dtype>>;

  static Error no_object(const std::string& id) { return not_found("object " + id + ": you have none"); }
  daemon::ObjectRef find_object(const std::string& tenant, const std::string& id, bool takes) {
    return objects_.with([&](auto& objects) -> daemon::ObjectRef {
      const auto it = objects.find({tenant, id});
      if (it == objects.end()) return nullptr;
      const daemon::ObjectRef object = it->second;
      if (takes) objects.erase(it);
      return object;
    });
  }
  void store(const std::string& tenant, const std::string& id, std::span<const std::byte> bytes) {
    auto object = std::make_shared<FakeObject>();
    object->id = id;
    object->memory.assign(bytes.begin(), bytes.end());
    object->bytes = object->memory;
    objects_.with([&](auto& objects) { objects[{tenant, id}] = std::move(object); });
  }

  void finish(std::unique_ptr<daemon::Call> call, const Done& done) {
    if (call_error) {
      call->error = *call_error;
      call->retry_after = Duration::seconds(7);
    } else {
      // By name: inputs come in the order of the request, outputs in that of the manifest.
      std::map<std::string, std::span<std::byte>> inputs;
      for (auto& input : call->inputs) inputs[input.name] = input.bytes;
      size_t i = 0;
      for (auto& [name, bytes] : inputs)
        if (i < call->outputs.size()) std::memcpy(call->outputs[i++].bytes.data(), bytes.data(), bytes.size());
    }
    done(std::move(call));
  }

  void add(const std::string& name, const Tensors& inputs, const Tensors& outputs) {
    auto function = std::make_shared<daemon::Function>();
    function->name = name;
    function->tenant = "default";
    function->version = "0123456789abcdef" + std::string(48, '0');
    function->created_at = "2026-11-16T10:00:00Z";
    Manifest& manifest = function->manifest;
    manifest.name = name;
    DimDecl n;
    n.name = "n";
    n.value = 4;
    n.max = 1 << 24;
    manifest.dims.push_back(n);
    ParamDecl alpha;
    alpha.name = "alpha";
    alpha.value = scalar_of(Dtype::kFp32, 2.0);
    manifest.params.push_back(alpha);
    for (const auto* list : {&inputs, &outputs})
      for (const auto& [tensor, dtype] : *list) {
        BufferDecl buffer;
        buffer.name = tensor;
        buffer.role = list == &inputs ? Role::kInput : Role::kOutput;
        buffer.dtype = dtype;
        buffer.shape.push_back(*Expression::parse("n"));
        manifest.buffers.push_back(std::move(buffer));
      }
    functions_.push_back(std::move(function));
  }

  daemon::Tenant tenant_, other_;
  std::vector<daemon::FunctionRef> functions_;
  os::Event held_event_, unread_event_, trace_ended_event_ = *os::Event::create();
  os::Event cancelled_event_ = *os::Event::create();
  os::Guarded<std::map<std::string, std::function<void(Result<daemon::Deployed>)>>> deploys_;
  os::Guarded<std::optional<std::pair<std::string, std::function<void(Result<daemon::Trace>)>>>> traced_;
  os::Guarded<std::map<std::string, std::pair<std::unique_ptr<daemon::Call>, Done>>> held_;
  os::Guarded<std::map<std::pair<std::string, std::string>, daemon::ObjectRef>> objects_;  ///< by tenant and id
  std::atomic<uint64_t> copied_{0}, calls_{0};
};

}  // namespace quern::server
