// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "function/manifest.h"
#include "function/yaml_tree.h"

namespace quern {

struct Binding;

/// The name of the manifest in a function's folder.
constexpr std::string_view kManifestFile = "function.yaml";

/// Kernels in one program: each is compiled for every local size.
constexpr size_t kMostEntries = 1024;

/// Every mistake of a manifest, with its place; bounded, because a stranger's file may hold nothing else.
class Mistakes {
 public:
  static constexpr size_t kMost = 100;

  void error(const YamlNode& at, std::string text) { add(at.line, at.column, false, std::move(text)); }
  void warning(const YamlNode& at, std::string text) { add(at.line, at.column, true, std::move(text)); }
  void add(int line, int column, bool is_warning, std::string text, std::string_view file = kManifestFile);
  bool any_error() const { return has_error_; }
  size_t errors() const { return errors_; }
  /// What is told from here on is only counted: spare the work of making it good.
  bool is_full() const { return all_.size() == kMost; }
  /// In order of place, those of the manifest first.
  std::vector<Mistake> take();

 private:
  std::vector<Mistake> all_;
  bool has_error_ = false;
  size_t errors_ = 0, left_out_ = 0;
};

/// `text` as messages show it: quoted, and cut where it is long.
std::string shown(std::string_view text);
/// "fp32", "int8", …
std::vector<std::string> dtype_names();

/// Turns a tree into a Manifest: manifest_parse.cc has what surrounds a graph (name, programs, settings),
/// manifest_graph.cc its names and buffers, manifest_steps.cc what runs, manifest_check.cc what holds between its
/// parts. A part that is wrong is reported and left out, and reading goes on: all mistakes come at once.
class ManifestReader {
 public:
  ManifestReader(const Files& files, Mistakes& mistakes, ConstantFiles constants = ConstantFiles::kHere)
      : files_(files), mistakes_(mistakes), constants_(constants) {}

  Manifest read(const YamlNode& root);
  /// Of a map of settings that stands by itself.
  Settings read_settings_alone(const YamlNode& node);

 private:
  /// What a name in an expression may stand for, and how messages call such an expression.
  struct Scope {
    std::string_view what;           ///< "a shape"
    bool fixed_only = false;         ///< dims that are fixed, and no params
    bool free_dims = true;           ///< dims a request may set
    bool any_integer_param = false;  ///< also without min and max
    bool floats = false;             ///< float params and numbers that are not whole
    bool is_size = true;             ///< marks its params ParamDecl::in_size
    bool indices = true;             ///< numbers of rounds, inside a repeat
    int64_t least = 1;               ///< of a size
    bool bools = false;              ///< params that are bool
  };

  // manifest_parse.cc: the values of YAML
  bool is_map(const YamlNode& node, std::string_view what);
  bool is_sequence(const YamlNode& node, std::string_view what);
  void refuse_unknown_keys(const YamlNode& map, std::string_view what, std::initializer_list<std::string_view> known,
                           std::initializer_list<std::string_view> later);
  const YamlNode* required(const YamlNode& map, std::string_view what, std::string_view key);
  std::optional<std::string> text_of(const YamlNode& node, std::string_view what);
  std::optional<int64_t> whole_of(const YamlNode& node, std::string_view what);
  std::optional<bool> bool_of(const YamlNode& node, std::string_view what);

  // manifest_parse.cc: what surrounds a graph
  void read_header(const YamlNode& root);
  void read_programs(const YamlNode& node);
  void read_driver(const YamlNode& key, const YamlNode& node);
  void read_program(const std::string& driver, uint32_t number, const YamlNode& node);
  uint32_t read_program_name(const YamlNode& kernel);
  void read_options(const YamlNode& node, ProgramDecl& program);
  void read_defines(const YamlNode& node, ProgramDecl& program);
  void read_program_file(const YamlNode& node, std::vector<std::string>& into);

  // manifest_settings.cc
  void read_settings(const YamlNode& node);
  void read_limits(const YamlNode& node);
  void read_quota(const YamlNode& node);
  void read_slo(const YamlNode& node);
  std::optional<Duration> read_duration(const YamlNode& map, std::string_view key);
  std::optional<double> read_share(const YamlNode& map, std::string_view key, double most);

  // manifest_graph.cc
  bool is_free_name(const YamlNode& key, std::string_view what);
  void read_dims(const YamlNode& node);
  void read_dim(const YamlNode& key, const YamlNode& node);
  void read_params(const YamlNode& node);
  void read_lets(const YamlNode& node);
  void read_param(const YamlNode& key, const YamlNode& node);
  std::optional<Number> number_of_dtype(const YamlNode& node, Dtype dtype, std::string_view what);
  void read_buffers(const YamlNode& node);
  void read_buffer(const YamlNode& key, const YamlNode& node);
  std::optional<Dtype> read_dtype(const YamlNode& node, std::string_view what);
  void read_contents(const YamlNode& node, const YamlNode& key, BufferDecl& buffer);
  void read_data(const YamlNode& node, const BufferDecl& buffer, ByteWriter& into);
  std::optional<Expression> read_expression(const YamlNode& node, const Scope& scope);
  bool names_are_known(const YamlNode& node, const Expression& expression, const Scope& scope);
  bool name_is_known(const YamlNode& node, const std::string& name, std::string_view way, const Scope& scope);
  std::vector<Expression> read_sizes(const YamlNode& node, std::string_view what, size_t fewest, size_t most,
                                     const Scope& scope);

  // manifest_steps.cc
  void read_steps(const YamlNode& node, std::string_view what);
  void read_step(const YamlNode& node);
  void read_kernel(const YamlNode& node);
  void read_argument(const YamlNode& node, KernelDecl& kernel);
  void read_view(const YamlNode& node, std::optional<Expression>& offset, std::optional<Expression>& count);
  std::optional<Expression> read_scalar(const YamlNode& node, Dtype dtype, std::string_view what);
  std::optional<Expression> read_when(const YamlNode& node);
  void read_fill(const YamlNode& node);
  void read_copy(const YamlNode& node);
  void read_repeat(const YamlNode& node);
  void read_rounds(const YamlNode& node, RepeatDecl& repeat);
  void read_index(const YamlNode& node, RepeatDecl& repeat);
  void read_swap(const YamlNode& node, RepeatDecl& repeat);
  void read_swap_pair(const YamlNode& node, RepeatDecl& repeat);
  void read_until(const YamlNode& node, RepeatDecl& repeat);
  std::optional<uint32_t> read_buffer_name(const YamlNode& node, std::string_view what);
  std::optional<size_t> repeat_of_index(std::string_view name) const;

  // manifest_check.cc
  void check_accesses();
  void check_swaps();
  void check_rounds_names();
  void check_constants();
  void check_used_names();
  void check_plans();
  void warn_of_idle_kernels(const Binding& binding);

  const Files& files_;
  Mistakes& mistakes_;
  ConstantFiles constants_;
  Manifest manifest_;
  // Where each part stands, in the order of the manifest's lists.
  const YamlNode* root_ = nullptr;
  std::vector<const YamlNode*> dim_places_, param_places_, let_places_, buffer_places_, kernel_places_, fill_places_,
      copy_places_, repeat_places_;
  std::vector<std::vector<const YamlNode*>> argument_places_;  // by kernel
  std::unordered_map<std::string, uint32_t> buffer_index_;     // by name: graphs have thousands
  size_t tensors_ = 0;
  bool has_lost_arguments_ = false;     // some were wrong and are not in their kernels
  std::vector<uint32_t> open_repeats_;  // those that what is read stands in, outermost first
};

}  // namespace quern
