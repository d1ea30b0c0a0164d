// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/units.h"
#include "main/call.h"
#include "main/cases.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/clock.h"

namespace quern::main {
namespace {

namespace json = boost::json;

// A server hears of the kernels of a lane at the end of a run, and at most every 10 ms.
constexpr Duration kTold = Duration::millis(25);

struct ProfileFlags {
  std::string function, folder;
  CallFlags call;
  bool measure = false;
  uint32_t runs = 20;
};

/// A call to measure by, and in words.
struct Measurement {
  std::vector<OwnedTensor> inputs;
  std::map<std::string, ParameterValue> parameters;
  std::string with;
  std::vector<int64_t> times;  ///< of each call, in ns
};

Result<Measurement> from_case(const std::string& folder) {
  QUERN_TRY(std::vector<Case> cases, read_cases(folder));
  if (cases.empty()) return invalid(fmt::format("{}: has no case in expected; leave out --folder", folder));
  const auto usual = std::find_if(cases.begin(), cases.end(), [](const Case& one) { return one.name == "default"; });
  Case& chosen = usual == cases.end() ? cases.front() : *usual;
  return Measurement{std::move(chosen.inputs),
                     std::move(chosen.parameters),
                     fmt::format("the case '{}' of {}", chosen.name, folder),
                     {}};
}

std::string show_value(const ParameterValue& value) {
  return std::visit([](const auto& one) { return fmt::format("{}", one); }, value);
}

// What a manifest leaves to the caller gets the smallest value it may have.
void add_smallest(const client::FunctionInfo& function, Wanted& wanted) {
  const json::value parsed = json::parse(function.json);
  for (const auto& [name, dim] : parsed.at("dims").as_object()) {
    const std::string key(name);
    if (wanted.parameters.contains(key) || !dim.as_object().contains("min") || dim.as_object().contains("default"))
      continue;
    const auto step = std::max<int64_t>(1, dim.at("multiple_of").to_number<int64_t>());
    wanted.dims[key] = (dim.at("min").to_number<int64_t>() + step - 1) / step * step;
    wanted.parameters[key] = wanted.dims[key];
  }
  for (const auto& [name, param] : parsed.at("params").as_object()) {
    const std::string key(name);
    const json::object& about = param.as_object();
    if (wanted.parameters.contains(key) || about.contains("default")) continue;
    const json::value* least = about.if_contains("min");
    if (about.at("dtype") == "bool")
      wanted.parameters[key] = false;
    else if (least && least->is_double())
      wanted.parameters[key] = least->get_double();
    else if (least && least->is_uint64())
      wanted.parameters[key] = least->get_uint64();
    else
      wanted.parameters[key] = least ? least->to_number<int64_t>() : int64_t{0};
  }
}

// Whole numbers are zeros where nothing is said: they may be places in another tensor.
Result<Measurement> made_up(const client::FunctionInfo& function, const CallFlags& flags) try {
  QUERN_TRY(Wanted wanted, read(flags));
  add_smallest(function, wanted);
  Measurement made;
  const auto tell = [&](const std::string& what) { made.with += (made.with.empty() ? "" : ", ") + what; };
  for (const auto& dim : function.dims)
    if (!wanted.parameters.contains(dim.name) && dim.value) tell(fmt::format("{}={}", dim.name, *dim.value));
  for (const auto& [name, value] : wanted.parameters) tell(fmt::format("{}={}", name, show_value(value)));
  for (const auto& input : function.inputs) {
    const bool is_said = std::any_of(wanted.inputs.begin(), wanted.inputs.end(),
                                     [&](const InputFlag& flag) { return flag.name == input.name; });
    if (!is_said) wanted.inputs.push_back({input.name, is_float(input.dtype) ? "@random" : "@zeros"});
  }
  for (const InputFlag& flag : wanted.inputs) tell(fmt::format("{}={}", flag.name, flag.value));
  QUERN_TRY(made.inputs, make_inputs(function, wanted.inputs, wanted.dims, flags.seed, true));
  made.parameters = std::move(wanted.parameters);
  return made;
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: tells no dims and params ({}); is it another version?", problem.what()));
}

// As urgent as the tenant may be, so that nobody's work is in the times; whatever the caller says goes first.
Result<Measurement> measure(client::Client& server, const ProfileFlags& flags) {
  QUERN_TRY(const auto function, server.function(flags.function));
  QUERN_TRY(Measurement one, flags.folder.empty() ? made_up(function, flags.call) : from_case(flags.folder));
  one.parameters.try_emplace("priority", int64_t{0});
  client::InferRequest request;
  request.function = flags.function;
  request.parameters = one.parameters;
  for (const OwnedTensor& input : one.inputs) request.inputs.push_back(input.view());
  const Time enough = os::now() + kTold;
  for (Time now = os::now(); one.times.size() < flags.runs || now < enough;) {
    QUERN_TRY(server.infer(request));
    const Time then = os::now();
    one.times.push_back((then - now).ns);
    now = then;
  }
  std::sort(one.times.begin(), one.times.end());
  return one;
}

std::string text_of(const json::value& value, std::string_view key) {
  const json::value* found = value.as_object().if_contains(key);
  return found ? std::string(found->as_string()) : "";
}
double number_of(const json::value& value, std::string_view key) { return value.at(key).to_number<double>(); }

// A group may take less than a nanosecond.
std::string show_short(double ns) { return ns < 100 ? fmt::format("{:.3g}ns", ns) : show_time(ns); }

std::string name_of_kernel(const json::value& kernel) {
  const std::string entry = text_of(kernel, "entry");
  return entry.empty() ? text_of(kernel, "identity") : entry;
}

std::string kernels_text(const json::array& kernels) {
  std::vector<std::vector<std::string>> rows{{"KERNEL", "DEVICE", "GROUPS", "LAUNCH", "GROUP", "MEAN", "SPREAD", "P10",
                                              "P90", "SAMPLES", "SEEN AGO", "SLICED"}};
  for (const json::value& kernel : kernels) {
    const auto groups = kernel.at("groups").to_number<uint64_t>();
    std::vector<std::string> row{name_of_kernel(kernel), "-", groups ? fmt::format("{}", groups) : "any"};
    const auto samples = kernel.at("samples").to_number<uint64_t>();
    const json::value* rough = kernel.as_object().if_contains("rough");
    if (rough) row[1] = text_of(kernel, "device");
    if (samples == 0) {
      row.push_back(rough ? "<" + show_time(number_of(kernel, "launch_ns")) : "-");
      row.insert(row.end(), 5, "-");
    } else {
      row.push_back(show_time(number_of(kernel, "launch_ns")));
      for (const char* key : {"p50", "mean", "spread", "p10", "p90"})
        row.push_back(show_short(number_of(kernel.at("group_ns"), key)));
    }
    row.push_back(fmt::format("{}", samples));
    row.push_back(samples ? show_time(number_of(kernel, "age_ns")) : "-");
    row.push_back(kernel.at("sliceable").as_bool() ? "yes" : "no: " + text_of(kernel, "reason"));
    rows.push_back(std::move(row));
  }
  constexpr std::array<size_t, 9> kNumbers{2, 3, 4, 5, 6, 7, 8, 9, 10};
  return align(rows, kNumbers);
}

std::string gaps_text(const json::array& gaps) {
  std::vector<std::vector<std::string>> rows{
      {"GAP AFTER", "DEVICE", "SAMPLES", "MEAN", "P10", "MEDIAN", "P90", "PREDICTABLE"}};
  for (const json::value& gap : gaps) {
    std::string after = "a run";
    if (!gap.at("between_runs").as_bool()) {
      after = text_of(gap, "after");
      if (after.empty()) after = text_of(gap, "after_identity");
    }
    std::vector<std::string> row{std::move(after), text_of(gap, "device"),
                                 fmt::format("{}", gap.at("samples").to_number<uint64_t>())};
    for (const char* key : {"mean_ns", "p10_ns", "p50_ns", "p90_ns"}) row.push_back(show_time(number_of(gap, key)));
    row.push_back(gap.at("stable").as_bool() ? "yes" : gap.at("known").as_bool() ? "no: they vary" : "no: too few");
    rows.push_back(std::move(row));
  }
  constexpr std::array<size_t, 5> kNumbers{2, 3, 4, 5, 6};
  return "\n" + align(rows, kNumbers);
}

std::string profile_text(const json::value& profile) {
  const std::string name = text_of(profile, "function"), version = text_of(profile, "version");
  const json::array &kernels = profile.at("kernels").as_array(), &gaps = profile.at("gaps").as_array();
  std::string text = version.empty() ? fmt::format("program {}\n", name) : fmt::format("{}@{}\n", name, version);
  if (kernels.empty())
    text += fmt::format("nothing is known of its kernels: call it, or try 'quern profile {} --measure'\n", name);
  else
    text += kernels_text(kernels);
  if (gaps.empty())
    text += "\nno gaps yet: they are learned while someone less urgent shares the device\n";
  else
    text += gaps_text(gaps);
  for (const json::value& kernel : kernels)
    if (kernel.at("delays_urgent").as_bool())
      text += fmt::format(
          "\nkernel {} on {}: is launched whole ({}) and takes {}, more than {}: whoever is more urgent waits\n",
          name_of_kernel(kernel), text_of(kernel, "device"), text_of(kernel, "reason"),
          show_time(number_of(kernel, "launch_ns")), show_time(number_of(profile, "bound_ns")));
  return text;
}

// Returns the profile for people, or as JSON. Fails on JSON that no server of this version sends.
Result<std::string> show_profile(const std::string& text, const Measurement* measured, bool as_json) try {
  json::value profile = json::parse(text);
  const auto median = measured ? measured->times[measured->times.size() / 2] : 0;
  if (as_json) {
    if (measured)
      profile.as_object()["measured"] =
          json::object{{"calls", measured->times.size()}, {"with", measured->with}, {"median_ns", median}};
    return json::serialize(profile) + "\n";
  }
  std::string shown;
  if (measured)
    shown = fmt::format("measured {} calls, one after the other, with {}: half of them took less than {}\n\n",
                        measured->times.size(), measured->with.empty() ? "no inputs" : measured->with,
                        show_time(static_cast<double>(median)));
  return shown + profile_text(profile);
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: answers with no profile ({}); is it another version?", problem.what()));
}

Status profile(const Remote& remote, const ProfileFlags& flags) {
  const bool has_own = !flags.call.inputs.empty() || !flags.call.params.empty() || !flags.call.dims.empty();
  if (!flags.folder.empty() && has_own)
    return invalid("--folder: a case says all of a call; not with --input, --param or --dims");
  QUERN_TRY(auto server, client::Client::create(remote.options));
  std::optional<Measurement> measured;
  if (flags.measure) {
    QUERN_TRY(measured, measure(server, flags));
  }
  QUERN_TRY(const std::string text, server.profile(flags.function));
  QUERN_TRY(const std::string shown, show_profile(text, measured ? &*measured : nullptr, remote.json));
  fmt::print("{}", shown);
  return {};
}

}  // namespace

void add_profile(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("profile", "Show how long the kernels and gaps of a function take");
  auto flags = std::make_shared<ProfileFlags>();
  command->add_option("FUNCTION", flags->function, "NAME, or NAME@VERSION; or the name of a program")->required();
  auto* measure = command->add_flag("--measure", flags->measure, "Call it first, as urgently as you may");
  const auto add = [&](const char* name, auto& into, const char* help, const char* type) {
    return command->add_option(name, into, help)->type_name(type)->needs(measure);
  };
  add("--runs", flags->runs, "So many times at least", "N")->check(CLI::Range(1, 1000000))->capture_default_str();
  add("--folder", flags->folder, "With the inputs of the case 'default' in FOLDER/expected, or of the first", "FOLDER");
  add("--input", flags->call.inputs, "A tensor; else real numbers are random and whole ones 0",
      "NAME=FILE.npy|@random|@zeros|@ones|@object:ID")
      ->allow_extra_args(false);
  add("--param", flags->call.params, "A param; else its default, or the smallest there is", "NAME=VALUE")
      ->allow_extra_args(false);
  add("--dims", flags->call.dims, "Dims; else their defaults, or the smallest there are", "NAME=N[,NAME=N]")
      ->allow_extra_args(false)
      ->delimiter(',');
  auto remote = add_remote_flags(*command);
  command->footer(
      "It is learned while the function serves, from kernels that ran undisturbed; nothing has to be measured first.\n"
      "GROUP is the median of a work-group, LAUNCH that of a whole launch; with a < it is what it took at the most, "
      "with\n"
      "others' work in it. docs/guide/priorities.md says who uses it.\n\n"
      "Examples:\n"
      "  quern profile saxpy\n"
      "  quern profile saxpy --measure --runs 100 --dims n=1048576");
  command->callback([=, &work] {
    work = [=] {
      const Status told = profile(*remote, *flags);
      return told.ok() ? 0 : fail(told.error());
    };
  });
}

}  // namespace quern::main
