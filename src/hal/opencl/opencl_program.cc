// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/opencl_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/suggest.h"
#include "hal/opencl/bitcode.h"
#include "hal/opencl/cl_error.h"
#include "hal/opencl/code_folder.h"
#include "hal/opencl/opencl_buffer.h"
#include "hal/opencl/pocl_binary.h"
#include "hal/opencl/portable_ir.h"
#include "os/dylib.h"

namespace quern::hal::opencl {
namespace {

// PoCL keeps the arguments' names in every binary but tells them only to who asks for it in the options.
constexpr const char* kOptions = "-cl-kernel-arg-info";

bool has_pocls_binaries(const OpenclDevice& device) { return device.traits().binaries == Traits::Binaries::kPocl; }

std::string log_of(const OpenclDevice& device, cl_program program) {
  size_t size = 0;
  device.api().GetProgramBuildInfo(program, device.id(), CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  if (size) device.api().GetProgramBuildInfo(program, device.id(), CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  log.resize(log.find_last_not_of(std::string("\0\n ", 3)) + 1);
  return log;
}

// Intel's runtime (2026.22) names a source by a number, "28:3:5: error", between lines that say when it began and
// ended.
std::string with_name_of_source(const std::string& log) {
  std::string plain;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line == "Compilation started" || line == "Compilation failed") continue;
    const size_t digits = line.find_first_not_of("0123456789");
    if (digits != 0 && digits != line.npos && line[digits] == ':' && line.find(':', digits + 1) != line.npos &&
        line.find_first_not_of("0123456789", digits + 1) == line.find(':', digits + 1))
      line.replace(0, digits, "program.cl");
    plain += (plain.empty() ? "" : "\n") + line;
  }
  return plain;
}

// Folders of this machine tell the user nothing: "/var/…/tempfile_a1b2c3.cl:3:5: error" becomes "program.cl:3:5:
// error".
std::string without_paths(std::string log, const std::string& folder) {
  log = with_name_of_source(log);
  if (folder.empty()) return log;
  for (size_t at = log.find(folder); at != std::string::npos; at = log.find(folder, at)) {
    const size_t end = std::min(log.find_first_of(": \n\"')", at + folder.size()), log.size());
    constexpr std::string_view kName = "program.cl";
    log.replace(at, end - at, kName);
    at += kName.size();
  }
  return log;
}

template <class T>
T argument_number(const Api& api, cl_kernel kernel, cl_uint i, cl_kernel_arg_info what, cl_int& code) {
  T value{};
  if (code == CL_SUCCESS) code = api.GetKernelArgInfo(kernel, i, what, sizeof value, &value, nullptr);
  return value;
}

std::string argument_text(const Api& api, cl_kernel kernel, cl_uint i, cl_kernel_arg_info what, cl_int& code) {
  size_t size = 0;
  if (code == CL_SUCCESS) code = api.GetKernelArgInfo(kernel, i, what, 0, nullptr, &size);
  std::string text(size, '\0');
  if (code == CL_SUCCESS && size) code = api.GetKernelArgInfo(kernel, i, what, size, text.data(), nullptr);
  if (!text.empty()) text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

AddressSpace space_of(cl_kernel_arg_address_qualifier qualifier) {
  switch (qualifier) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
      return AddressSpace::kGlobal;
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
      return AddressSpace::kConstant;
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
      return AddressSpace::kLocal;
    default:
      return AddressSpace::kPrivate;
  }
}

}  // namespace

OpenclKernel::OpenclKernel(const Api& api, Handle<cl_kernel> object, const EntryInfo& entry, uint64_t max_group_size)
    : api_(api),
      object_(std::move(object)),
      check_(entry),
      max_group_size_(max_group_size),
      remembered_(entry.arguments.size()) {}

Status OpenclKernel::set_arguments(std::span<const Argument> arguments, uint64_t device_local_bytes) {
  // PoCL accepts too much local memory and dies on an assert in a worker.
  QUERN_TRY(check_(arguments, device_local_bytes));
  for (size_t i = 0; i < arguments.size(); ++i) {
    Remembered next{.is_set = true};
    cl_mem object = nullptr;
    const void* value = nullptr;
    size_t size = 0;
    if (const auto* buffer = std::get_if<Buffer*>(&arguments[i])) {
      auto& given = static_cast<OpenclBuffer&>(**buffer);
      next.value = given.id();
      object = given.object();
      value = &object;
      size = sizeof object;
    } else if (const auto* scalar = std::get_if<Scalar>(&arguments[i])) {
      next.value = scalar->bits;
      value = &scalar->bits;
      size = next.scalar_bytes = size_of(scalar->dtype);
    } else {
      size = next.value = std::get<LocalMemory>(arguments[i]).size_bytes;
    }
    auto& last = remembered_[i];
    if (last.is_set && last.value == next.value && last.scalar_bytes == next.scalar_bytes) continue;
    last.is_set = false;
    if (cl_int code = api_.SetKernelArg(object_.get(), static_cast<cl_uint>(i), size, value); code != CL_SUCCESS)
      return check_.wrong(i, name_of_cl(code));
    last = next;
  }
  return {};
}

Result<std::unique_ptr<Kernel>> OpenclProgram::create_kernel(std::string_view entry) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const EntryInfo& info) { return info.name == entry; });
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& info : entries_) names.push_back(info.name);
    return not_found(fmt::format("kernel {}: the program has none of this name{}", entry, did_you_mean(entry, names)));
  }
  const Api& api = device_.api();
  cl_int code = CL_SUCCESS;
  Handle<cl_kernel> object(api.CreateKernel(object_.get(), found->name.c_str(), &code), api.ReleaseKernel);
  if (code != CL_SUCCESS) return cl_error(code, fmt::format("kernel {}", entry));
  size_t most = 0;
  api.GetKernelWorkGroupInfo(object.get(), device_.id(), CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr);
  if (most == 0 || most > device_.caps().max_group_size) most = device_.caps().max_group_size;
  return std::unique_ptr<Kernel>(std::make_unique<OpenclKernel>(api, std::move(object), *found, most));
}

Status OpenclProgram::reflect() {
  const Api& api = device_.api();
  size_t size = 0;
  if (cl_int code = api.GetProgramInfo(object_.get(), CL_PROGRAM_KERNEL_NAMES, 0, nullptr, &size); code != CL_SUCCESS)
    return cl_error(code, "program: names of kernels");
  std::string names(size, '\0');
  if (size) api.GetProgramInfo(object_.get(), CL_PROGRAM_KERNEL_NAMES, size, names.data(), nullptr);
  names.resize(names.find_last_not_of('\0') + 1);
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(';', at), names.size());
    EntryInfo entry;
    entry.name = names.substr(at, end - at);
    at = end + 1;
    cl_int code = CL_SUCCESS;
    Handle<cl_kernel> kernel(api.CreateKernel(object_.get(), entry.name.c_str(), &code), api.ReleaseKernel);
    cl_uint arguments = 0;
    if (code == CL_SUCCESS)
      code = api.GetKernelInfo(kernel.get(), CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr);
    for (cl_uint i = 0; i < arguments && code == CL_SUCCESS; ++i) {
      ArgumentInfo argument;
      argument.name = argument_text(api, kernel.get(), i, CL_KERNEL_ARG_NAME, code);
      argument.type = argument_text(api, kernel.get(), i, CL_KERNEL_ARG_TYPE_NAME, code);
      argument.space = space_of(argument_number<cl_kernel_arg_address_qualifier>(
          api, kernel.get(), i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, code));
      const auto qualifiers =
          argument_number<cl_kernel_arg_type_qualifier>(api, kernel.get(), i, CL_KERNEL_ARG_TYPE_QUALIFIER, code);
      argument.is_const = (qualifiers & CL_KERNEL_ARG_TYPE_CONST) != 0 || argument.space == AddressSpace::kConstant;
      entry.arguments.push_back(std::move(argument));
    }
    if (code != CL_SUCCESS) return cl_error(code, fmt::format("kernel {}: reflection", entry.name));
    size_t required[3] = {};
    cl_ulong local_bytes = 0;
    api.GetKernelWorkGroupInfo(kernel.get(), device_.id(), CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required, required,
                               nullptr);
    api.GetKernelWorkGroupInfo(kernel.get(), device_.id(), CL_KERNEL_LOCAL_MEM_SIZE, sizeof local_bytes, &local_bytes,
                               nullptr);
    entry.required_group_size = {required[0], required[1], required[2]};
    entry.local_memory_bytes = local_bytes;
    entries_.push_back(std::move(entry));
  }
  if (entries_.empty()) return invalid("program: has no kernel; write at least one `kernel void NAME(…)`");
  return {};
}

Result<std::unique_ptr<Program>> OpenclProgram::build(OpenclDevice& device, const Source& source) {
  for (const auto& size : source.group_sizes)
    if (has_pocls_binaries(device) && size != Size3{0, 0, 0} &&
        std::find(device.group_sizes_.begin(), device.group_sizes_.end(), size) == device.group_sizes_.end())
      return invalid(fmt::format("build: the device was not opened for local size {}; name it in the options of open",
                                 variant_of(size)));
  const Api& api = device.api();
  const char* texts[] = {kPrelude, source.text.c_str()};
  const size_t sizes[] = {0, source.text.size()};  // 0: up to its end
  cl_int code = CL_SUCCESS;
  Handle<cl_program> object(api.CreateProgramWithSource(device.context(), 2, texts, sizes, &code), api.ReleaseProgram);
  if (code != CL_SUCCESS) return cl_error(code, "program");
  const std::string options = source.options.empty() ? kOptions : fmt::format("{} {}", kOptions, source.options);
  code = api.BuildProgram(object.get(), 1, &device.id_, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    const auto log = without_paths(log_of(device, object.get()), device.cache_folder_);
    if (!log.empty() && code != CL_OUT_OF_HOST_MEMORY && code != CL_OUT_OF_RESOURCES) return invalid(log);
    return cl_error(code, "program: build");
  }
  auto program = std::make_unique<OpenclProgram>(device, std::move(object));
  program->was_built_ = true;
  program->group_sizes_ = source.group_sizes;
  QUERN_TRY(program->reflect());
  program->note_facts(source);
  return std::unique_ptr<Program>(std::move(program));
}

// The device's own compiler made the program, and clang-15 made another from the same source. What clang's shows holds
// for both only if they have the same kernels.
void OpenclProgram::note_facts(const Source& source) {
  const auto refuse = [&](const std::string& reason) {
    for (EntryInfo& entry : entries_) entry.unsliceable = reason;
  };
  if (device_.cache_folder_.empty()) return refuse("the device has no folder for clang-15 to work in");
  const auto programs = compile_portable(source, device_text(device_.api(), device_.id(), CL_DEVICE_EXTENSIONS),
                                         device_.cache_folder_, clang_path());
  if (!programs.ok()) return refuse(programs.error().text);
  for (const Bytes& code : *programs) {
    const auto kernels = read_kernels(code);
    if (!kernels.ok()) return refuse(kernels.error().text);
    note_facts(*kernels, &code == programs->data());
  }
}

void OpenclProgram::note_facts(const std::map<std::string, KernelFacts>& facts, bool is_first) {
  const auto* kernels = &facts;
  for (EntryInfo& entry : entries_) {
    const auto found = kernels->find(entry.name);
    const bool is_same = found != kernels->end() && kernels->size() == entries_.size() &&
                         std::equal(entry.arguments.begin(), entry.arguments.end(), found->second.arguments.begin(),
                                    found->second.arguments.end(), [](const auto& vendors, const auto& clangs) {
                                      return vendors.space == clangs.space;
                                    });
    if (!is_same) {
      entry.unsliceable = "clang-15 and the compiler of the device see different kernels in this source";
      continue;
    }
    if (entry.unsliceable.empty()) entry.unsliceable = found->second.unsliceable;
    for (size_t i = 0; i < entry.arguments.size(); ++i) {
      Access& access = entry.arguments[i].access;
      const Access here = found->second.arguments[i].access;
      access = is_first || access == here ? here : Access::kUnknown;
    }
  }
}

// A context of a device and its partitions has one binary for each of them, and every question is about all.
Result<Bytes> OpenclProgram::vendors_binary() {
  const Api& api = device_.api();
  cl_uint count = 0;
  cl_int code = api.GetProgramInfo(object_.get(), CL_PROGRAM_NUM_DEVICES, sizeof count, &count, nullptr);
  std::vector<cl_device_id> devices(count);
  if (code == CL_SUCCESS)
    code = api.GetProgramInfo(object_.get(), CL_PROGRAM_DEVICES, count * sizeof(cl_device_id), devices.data(), nullptr);
  std::vector<size_t> sizes(count);
  // With PoCL this is where the machine code is made.
  if (code == CL_SUCCESS)
    code = api.GetProgramInfo(object_.get(), CL_PROGRAM_BINARY_SIZES, count * sizeof(size_t), sizes.data(), nullptr);
  if (code != CL_SUCCESS) return cl_error(code, "program: binary");
  const auto ours = static_cast<size_t>(std::find(devices.begin(), devices.end(), device_.id()) - devices.begin());
  if (ours == count || sizes[ours] == 0) return internal("program: the vendor has no binary of it");
  // A null pointer should leave a device out, but Intel's runtime (2026.22) refuses one: all of them are fetched.
  std::vector<Bytes> binaries(count);
  std::vector<unsigned char*> places(count, nullptr);
  for (cl_uint i = 0; i < count; ++i) {
    binaries[i].resize(sizes[i]);
    if (sizes[i] > 0) places[i] = reinterpret_cast<unsigned char*>(binaries[i].data());
  }
  code = api.GetProgramInfo(object_.get(), CL_PROGRAM_BINARIES, count * sizeof(unsigned char*), places.data(), nullptr);
  if (code != CL_SUCCESS) return cl_error(code, "program: binary");
  return std::move(binaries[ours]);
}

Result<Bytes> OpenclProgram::binary() {
  if (!was_built_) return unsupported("program: was loaded from a binary; keep that one");
  QUERN_TRY(const Bytes vendors, vendors_binary());
  Envelope envelope;
  envelope.build_key = device_.caps().build_key;
  envelope.group_sizes = group_sizes_;
  envelope.entries = entries_;
  envelope.payload = vendors;
  if (!has_pocls_binaries(device_)) return write_envelope(envelope);
  QUERN_TRY(auto parts, parse_pocl(vendors));
  QUERN_TRY(strip_pocl(parts, group_sizes_));
  const Bytes stripped = write_pocl(parts);
  envelope.kind = Envelope::Kind::kPocl;
  envelope.payload = stripped;
  return write_envelope(envelope);
}

Result<std::unique_ptr<Program>> OpenclProgram::load(OpenclDevice& device, std::span<const std::byte> binary) {
  QUERN_TRY(auto envelope, read_envelope(binary, device.caps().build_key));
  if (has_pocls_binaries(device) != (envelope.kind == Envelope::Kind::kPocl))
    return invalid("binary: is of another vendor");
  Bytes rebuilt;
  std::span<const std::byte> vendors = envelope.payload;
  std::vector<CodeFile> files;
  if (has_pocls_binaries(device)) {
    QUERN_TRY(auto parts, parse_pocl(envelope.payload));
    // Whatever it brought: without bitcode nothing can compile here.
    QUERN_TRY(strip_pocl(parts, envelope.group_sizes));
    QUERN_TRY(files, unpack_code(parts, envelope.group_sizes, device.cache_folder_, device.unpacked_));
    for (auto& kernel : parts.kernels) kernel.files.clear();
    rebuilt = write_pocl(parts);
    vendors = rebuilt;
  }
  const Api& api = device.api();
  const auto* data = reinterpret_cast<const unsigned char*>(vendors.data());
  const size_t size = vendors.size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  Handle<cl_program> object(api.CreateProgramWithBinary(device.context(), 1, &device.id_, &size, &data, &status, &code),
                            api.ReleaseProgram);
  if (code == CL_SUCCESS) code = status;
  if (code != CL_SUCCESS) return cl_error(code, "binary");
  if (code = api.BuildProgram(object.get(), 1, &device.id_, kOptions, nullptr, nullptr); code != CL_SUCCESS)
    return cl_error(code, fmt::format("binary: {}", log_of(device, object.get())));
  auto program = std::make_unique<OpenclProgram>(device, std::move(object));
  program->entries_ = std::move(envelope.entries);
  program->group_sizes_ = std::move(envelope.group_sizes);
  if (program->entries_.empty()) return invalid("binary: has no kernel");
  for (const auto& file : files) {
    QUERN_TRY(auto segment, os::load_code(file.path));
    program->code_.push_back({segment.begin, segment.end, file.entry});
  }
  return std::unique_ptr<Program>(std::move(program));
}

Result<std::unique_ptr<Program>> OpenclDevice::build(const Source& source) {
  return OpenclProgram::build(*this, source);
}
Result<std::unique_ptr<Program>> OpenclDevice::load(std::span<const std::byte> binary) {
  return OpenclProgram::load(*this, binary);
}

}  // namespace quern::hal::opencl
