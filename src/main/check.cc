// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "function/plan_builder.h"
#include "main/cases.h"
#include "main/command.h"
#include "main/guards.h"
#include "main/local.h"
#include "main/slices.h"
#include "os/clock.h"
#include "os/file.h"

namespace quern::main {
namespace {

struct CheckFlags {
  std::string folder;
  LocalFlags local;
  bool json = false, slices = false;
};

/// One line of the report.
struct Row {
  std::string name, sizes, result;
  bool ok = true;
  uint64_t device_ns = 0;
  int slicings = 0;  ///< that gave the same; 0 if nothing could be cut
};
struct KernelRow {
  std::string entry;
  uint64_t launches = 0, time_ns = 0;
  double bytes = 0, flops = 0;  ///< in all; 0: not stated
};

std::string sizes_of(const Manifest& manifest, const Binding& binding) {
  std::string text;
  for (size_t i = 0; i < manifest.dims.size(); ++i)
    if (!manifest.dims[i].fixed)
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", manifest.dims[i].name, binding.dims[i]);
  return text;
}

// As odd as its dims allow, somewhat below the default: what a kernel that forgot the last elements gets wrong.
Binding odd_sizes(const Manifest& manifest) {
  Binding binding = corner_of(manifest, Corner::kDefault);
  for (size_t i = 0; i < manifest.dims.size(); ++i) {
    const DimDecl& dim = manifest.dims[i];
    if (dim.fixed) continue;
    const int64_t step = dim.multiple_of, lowest = (dim.min + step - 1) / step, highest = dim.max / step;
    int64_t times = std::clamp<int64_t>(binding.dims[i] / step * 3 / 4, lowest, highest);
    if (times % 2 == 0) times += times < highest ? 1 : -1;
    binding.dims[i] = std::clamp(times, lowest, highest) * step;
  }
  (void)compute_lets(manifest, binding);  // who plans it is told what has no value
  return binding;
}

class Checker {
 public:
  /// `slices` is null if slices are not to be checked.
  Checker(Local& local, daemon::FunctionRef function, Guards& guards, Slices* slices)
      : local_(local), function_(std::move(function)), guards_(guards), slices_(slices) {}

  // Random numbers go in; that it runs to its end is what is checked.
  Status try_size(std::string name, const Binding& binding, bool with_kernels) {
    const Manifest& manifest = function_->manifest;
    Row row{std::move(name), sizes_of(manifest, binding), "runs", true, 0};
    client::InferRequest request;
    std::map<std::string, int64_t> dims;
    for (size_t i = 0; i < manifest.dims.size(); ++i) {
      if (manifest.dims[i].fixed) continue;
      dims[manifest.dims[i].name] = binding.dims[i];
      request.parameters[manifest.dims[i].name] = binding.dims[i];
    }
    for (size_t i = 0; i < manifest.params.size(); ++i)
      if (!manifest.params[i].value) request.parameters[manifest.params[i].name] = parameter_of(binding.params[i]);
    if (const auto plan = make_plan(manifest, binding); !plan.ok()) {
      row.result = "is refused: " + plan.error().text;
      rows_.push_back(std::move(row));
      return {};
    }
    std::vector<InputFlag> flags;
    for (const BufferDecl& buffer : manifest.buffers)
      if (buffer.role == Role::kInput) flags.push_back({buffer.name, "@random"});
    QUERN_TRY(const auto inputs, make_inputs(info_of(*function_), flags, dims, 1));
    for (const OwnedTensor& input : inputs) request.inputs.push_back(input.view());
    const auto answer = call(request);
    if (!answer.ok()) {
      row.ok = false;
      QUERN_TRY(row.result, explain(answer.error(), request, binding));
    } else {
      row.device_ns = answer->call->times.device_time_ns;
      if (with_kernels) QUERN_TRY(note_kernels(binding, *answer->call));
      QUERN_TRY(try_slices(request, binding, *answer, row));
      QUERN_TRY(try_guards(request, binding, *answer, row));
    }
    rows_.push_back(std::move(row));
    return {};
  }

  Status try_case(const Case& one) {
    const Manifest& manifest = function_->manifest;
    client::InferRequest request;
    request.parameters = one.parameters;
    for (const OwnedTensor& input : one.inputs) request.inputs.push_back(input.view());
    Row row{"expected/" + one.name, "", "", true, 0};
    const auto answer = call(request);
    CallSpec spec;
    spec.parameters = one.parameters;
    for (const OwnedTensor& input : one.inputs) spec.inputs.push_back({input.name, input.dtype, input.shape});
    const auto bound = bind(manifest, spec);
    if (!answer.ok() || !bound.ok()) {
      const Error& error = answer.ok() ? bound.error() : answer.error();
      rows_.push_back({row.name, "", error.text, false, 0});
      if (!bound.ok()) return {};
      QUERN_TRY(rows_.back().result, explain(error, request, *bound));
      return {};
    }
    row.device_ns = answer->call->times.device_time_ns;
    const Binding& binding = *bound;
    row.sizes = sizes_of(manifest, binding);
    if (one.name == "default") QUERN_TRY(note_kernels(binding, *answer->call));
    double largest = 0;
    for (const OwnedTensor& wanted : one.outputs) {
      const auto& outputs = answer->answer.outputs;
      const auto got =
          std::find_if(outputs.begin(), outputs.end(), [&](const auto& output) { return output.name == wanted.name; });
      if (got == outputs.end())
        return invalid(
            fmt::format("expected/{}/output/{}.npy: the function has no such output", one.name, wanted.name));
      const Difference difference = compare(*got, wanted.view(), one.rtol, one.atol);
      largest = std::max(largest, difference.largest);
      if (difference.same) continue;
      row.ok = false;
      row.result += fmt::format("{}{}: {}", row.result.empty() ? "" : "; ", wanted.name, difference.what);
    }
    if (row.ok) row.result = largest == 0 ? "is equal" : fmt::format("is equal within {:.1g}", largest);
    QUERN_TRY(try_slices(request, binding, *answer, row));
    QUERN_TRY(try_guards(request, binding, *answer, row));
    rows_.push_back(std::move(row));
    return {};
  }

  bool all_ok() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.ok; });
  }

  void print() const {
    std::vector<std::vector<std::string>> rows{{"", "SIZE", "DEVICE TIME", "RESULT"}};
    for (const Row& row : rows_)
      rows.push_back({row.name, row.sizes, row.device_ns ? show_time(static_cast<double>(row.device_ns)) : "",
                      (row.ok ? "" : "FAILED: ") + row.result});
    fmt::print("{}", align(rows));
    if (!kernels_.empty()) print_kernels();
    if (slices_) slices_->print();
  }

  void print_json() const {
    std::string rows, kernels;
    for (const Row& row : rows_)
      rows += fmt::format("{}{{\"name\": {}, \"size\": {}, \"ok\": {}, \"result\": {}, \"device_time_ns\": {}{}}}",
                          rows.empty() ? "" : ", ", json_string(row.name), json_string(row.sizes), row.ok,
                          json_string(row.result), row.device_ns,
                          slices_ ? fmt::format(", \"slicings\": {}", row.slicings) : "");
    for (const KernelRow& kernel : kernels_)
      kernels += fmt::format("{}{{\"entry\": {}, \"launches\": {}, \"time_ns\": {}, \"bytes\": {}, \"flops\": {}}}",
                             kernels.empty() ? "" : ", ", json_string(kernel.entry), kernel.launches, kernel.time_ns,
                             kernel.bytes, kernel.flops);
    fmt::print("{{\"function\": {}, \"version\": {}, \"ok\": {}, \"checks\": [{}], \"kernels\": [{}]{}}}\n",
               json_string(function_->name), json_string(function_->version), all_ok(), rows, kernels,
               slices_ ? fmt::format(", \"slices\": {}", slices_->json()) : "");
  }

 private:
  void print_kernels() const {
    const auto rate = [](double amount, uint64_t time_ns) {
      return amount > 0 && time_ns > 0 ? fmt::format("{:.3g}", amount / static_cast<double>(time_ns)) : "";
    };
    std::vector<std::vector<std::string>> rows{{"KERNEL", "LAUNCHES", "TIME", "GB/s", "GFLOP/s"}};
    for (const KernelRow& kernel : kernels_)
      rows.push_back({kernel.entry, fmt::format("{}", kernel.launches), show_time(static_cast<double>(kernel.time_ns)),
                      rate(kernel.bytes, kernel.time_ns), rate(kernel.flops, kernel.time_ns)});
    const size_t right[] = {1, 2, 3, 4};
    fmt::print("\n{}", align(rows, right));
  }

  // Once to warm up, then for the time.
  Result<Local::Answer> call(const client::InferRequest& request) {
    QUERN_TRY(const auto first, local_.call(function_, request, false));
    first_ = copy_of(first.answer.outputs);
    const Time began = os::now();
    auto second = local_.call(function_, request, true);
    alone_ = os::now() - began;
    return second;
  }

  // The text of an error of a call. A fault names the kernel only; with guards the buffer is often found.
  Result<std::string> explain(const Error& error, const client::InferRequest& request, const Binding& binding) {
    if (error.code != ErrorCode::kFaulted) return error.text;
    QUERN_TRY(const auto found, guards_.explain_fault(request, binding));
    return found.value_or(error.text);
  }

  Status try_guards(const client::InferRequest& request, const Binding& binding, const Local::Answer& answer,
                    Row& row) {
    const bool is_same = !difference(first_, answer.answer.outputs);
    QUERN_TRY(const auto verdict, guards_.run(request, binding, is_same, alone_));
    if (verdict.why_not_examined)
      row.result += fmt::format("; guard bands were not looked at: {}", *verdict.why_not_examined);
    if (!verdict.mistake) return {};
    row.result = fmt::format("{}{}{}", row.ok ? "" : row.result, row.ok ? "" : "; ", *verdict.mistake);
    row.ok = false;
    return {};
  }

  Status try_slices(const client::InferRequest& request, const Binding& binding, const Local::Answer& answer,
                    Row& row) {
    if (!slices_) return {};
    // Atomics on floats, or an output that was not written: such a function is never the same.
    if (const auto found = difference(first_, answer.answer.outputs)) {
      row.result += fmt::format("; slices are not compared: from call to call {}", *found);
      return {};
    }
    QUERN_TRY(const uint64_t sliced, slices_->note(binding, *answer.call));
    if (const auto found = slices_->run(request, first_)) {
      row.ok = false;
      row.result += fmt::format("; in slices {}", *found);
      return {};
    }
    if (sliced == 0) return {};
    row.slicings = Slices::kRounds;
    row.result += ", also in slices";
    return {};
  }

  Status note_kernels(const Binding& binding, const daemon::Call& call) {
    QUERN_TRY(const Plan plan, make_plan(function_->manifest, binding));
    std::vector<KernelRow> planned(function_->manifest.kernels.size());
    for (const PlannedLaunch& launch : plan.launches) {
      KernelRow& row = planned[launch.kernel];
      row.entry = function_->manifest.kernels[launch.kernel].shown();
      ++row.launches;
      row.bytes += static_cast<double>(launch.bytes);
      row.flops += static_cast<double>(launch.flops);
    }
    for (size_t i = 0; i < std::min(planned.size(), call.kernels.size()); ++i) {
      if (call.kernels[i].launches == 0 || planned[i].launches == 0) continue;
      // Rounds that are alike are planned once: what one launch does, times those that were made.
      const double times = static_cast<double>(call.kernels[i].launches) / static_cast<double>(planned[i].launches);
      kernels_.push_back({planned[i].entry, call.kernels[i].launches, call.kernels[i].time_ns, planned[i].bytes * times,
                          planned[i].flops * times});
    }
    return {};
  }

  Local& local_;
  daemon::FunctionRef function_;
  Guards& guards_;
  Slices* slices_;
  OutputBytes first_;  // of the call before the last
  Duration alone_;     // how long the last call took
  std::vector<Row> rows_;
  std::vector<KernelRow> kernels_;
};

void print_mistakes_json(const Folder& folder) {
  std::string mistakes;
  for (const Mistake& one : folder.parsed.mistakes)
    mistakes += fmt::format("{}{{\"file\": {}, \"line\": {}, \"column\": {}, \"is_warning\": {}, \"text\": {}}}",
                            mistakes.empty() ? "" : ", ", json_string(one.file), one.line, one.column, one.is_warning,
                            json_string(one.text));
  fmt::print("{{\"function\": {}, \"ok\": false, \"mistakes\": [{}]}}\n", json_string(folder.name), mistakes);
}

void print_error_json(const std::string& folder, const Error& error) {
  fmt::print("{{\"folder\": {}, \"ok\": false, \"error\": {{\"code\": {}, \"message\": {}}}}}\n", json_string(folder),
             json_string(name_of(error.code)), json_string(error.text));
}

/// A folder that is gone with its owner.
struct TemporaryFolder {
  std::string path;
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (!path.empty()) os::remove_tree(path);
  }
};

Result<bool> check(CheckFlags flags) {
  QUERN_TRY(const Folder folder, read_folder(flags.folder));
  if (!folder.parsed.manifest) {
    if (flags.json) return print_mistakes_json(folder), false;
    QUERN_TRY(tell_mistakes(folder));
  }
  QUERN_TRY(const std::vector<Case> cases, read_cases(flags.folder));
  // The function is deployed several times, and compiled once.
  TemporaryFolder binaries;
  if (flags.local.binary_cache.empty()) {
    QUERN_TRY(binaries.path, os::make_temporary_folder("quern-check"));
    flags.local.binary_cache = binaries.path;
  }
  QUERN_TRY(auto local, Local::create(flags.local));
  QUERN_TRY(const auto function, local->deploy(folder));
  std::unique_ptr<Slices> slices;
  if (flags.slices) {
    QUERN_TRY(slices, Slices::create(flags.local, folder));
  }
  Guards guards(flags.local, folder);
  Checker checker(*local, function, guards, slices.get());
  const Manifest& manifest = function->manifest;
  // A case of that name has numbers that make sense, and says what must come out: better than random ones.
  const auto has_case = [&](std::string_view name) {
    return std::any_of(cases.begin(), cases.end(), [&](const Case& one) { return one.name == name; });
  };
  if (!has_case("smallest")) QUERN_TRY(checker.try_size("smallest", corner_of(manifest, Corner::kSmallest), false));
  if (!has_case("default")) QUERN_TRY(checker.try_size("default", corner_of(manifest, Corner::kDefault), true));
  if (!has_case("odd")) QUERN_TRY(checker.try_size("odd", odd_sizes(manifest), false));
  for (const Case& one : cases) QUERN_TRY(checker.try_case(one));
  if (flags.json) {
    checker.print_json();
    return checker.all_ok();
  }
  fmt::print("{}@{} builds for", function->name, function->version.substr(0, 12));
  for (const auto& device : local->devices()) fmt::print(" {} ({})", device.name, device.model);
  fmt::print("\n");
  checker.print();
  if (cases.empty()) fmt::print("\nnothing is compared: put cases into {}/expected\n", flags.folder);
  return checker.all_ok();
}

}  // namespace

void add_check(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("check", "Validate, build, run and compare the function in a folder");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("FOLDER", flags->folder, "The folder that holds function.yaml")->required();
  add_local_flags(*command, flags->local);
  command->add_flag("--slices", flags->slices,
                    "Also run with its kernels cut into random slices, and compare to the bit");
  command->add_flag("--json", flags->json, "For programs");
  command->footer(
      "Runs every case in FOLDER/expected, and the smallest, the default and an odd size with random inputs unless "
      "there\n"
      "is a case of that name; each also with guards around its buffers, to find what is written or read outside of "
      "them:\n"
      "  expected/CASE/input/NAME.npy, expected/CASE/output/NAME.npy, expected/CASE/case.yaml (dims, params, rtol, "
      "atol)\n\nExample:\n  quern check examples/jacobi");
  command->callback([=, &work] {
    work = [=] {
      const auto checked = check(*flags);
      if (!checked.ok()) {
        if (flags->json) print_error_json(flags->folder, checked.error());
        return fail(checked.error());
      }
      if (!*checked) fmt::print(stderr, "error: {}: a check failed\n", flags->folder);
      return *checked ? 0 : kFailed;
    };
  });
}

}  // namespace quern::main
