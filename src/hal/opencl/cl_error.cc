// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/cl_error.h"

#include <fmt/format.h>

namespace quern::hal::opencl {
namespace {

struct Row {
  cl_int code;
  const char* name;
  ErrorCode meaning;
};

constexpr Row kRows[] = {
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND", ErrorCode::kUnavailable},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE", ErrorCode::kUnavailable},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE", ErrorCode::kUnsupported},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE", ErrorCode::kExhausted},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES", ErrorCode::kExhausted},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY", ErrorCode::kExhausted},
    {CL_PROFILING_INFO_NOT_AVAILABLE, "CL_PROFILING_INFO_NOT_AVAILABLE", ErrorCode::kUnsupported},
    {CL_MEM_COPY_OVERLAP, "CL_MEM_COPY_OVERLAP", ErrorCode::kInvalid},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE", ErrorCode::kInvalid},
    {CL_MISALIGNED_SUB_BUFFER_OFFSET, "CL_MISALIGNED_SUB_BUFFER_OFFSET", ErrorCode::kInvalid},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
     ErrorCode::kUnavailable},
    {CL_KERNEL_ARG_INFO_NOT_AVAILABLE, "CL_KERNEL_ARG_INFO_NOT_AVAILABLE", ErrorCode::kUnsupported},
    {CL_INVALID_VALUE, "CL_INVALID_VALUE", ErrorCode::kInvalid},
    {CL_INVALID_DEVICE, "CL_INVALID_DEVICE", ErrorCode::kInvalid},
    {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT", ErrorCode::kInternal},
    {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE", ErrorCode::kInternal},
    {CL_INVALID_HOST_PTR, "CL_INVALID_HOST_PTR", ErrorCode::kInvalid},
    {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT", ErrorCode::kInvalid},
    {CL_INVALID_BINARY, "CL_INVALID_BINARY", ErrorCode::kInvalid},
    {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS", ErrorCode::kInvalid},
    {CL_INVALID_PROGRAM, "CL_INVALID_PROGRAM", ErrorCode::kInvalid},
    {CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE", ErrorCode::kInvalid},
    {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME", ErrorCode::kNotFound},
    {CL_INVALID_KERNEL_DEFINITION, "CL_INVALID_KERNEL_DEFINITION", ErrorCode::kInvalid},
    {CL_INVALID_KERNEL, "CL_INVALID_KERNEL", ErrorCode::kInvalid},
    {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX", ErrorCode::kInvalid},
    {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE", ErrorCode::kInvalid},
    {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE", ErrorCode::kInvalid},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS", ErrorCode::kInvalid},
    {CL_INVALID_WORK_DIMENSION, "CL_INVALID_WORK_DIMENSION", ErrorCode::kInvalid},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE", ErrorCode::kInvalid},
    {CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE", ErrorCode::kInvalid},
    {CL_INVALID_GLOBAL_OFFSET, "CL_INVALID_GLOBAL_OFFSET", ErrorCode::kInvalid},
    {CL_INVALID_EVENT_WAIT_LIST, "CL_INVALID_EVENT_WAIT_LIST", ErrorCode::kInternal},
    {CL_INVALID_EVENT, "CL_INVALID_EVENT", ErrorCode::kInternal},
    {CL_INVALID_OPERATION, "CL_INVALID_OPERATION", ErrorCode::kInvalid},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE", ErrorCode::kExhausted},
    {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE", ErrorCode::kInvalid},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR", ErrorCode::kUnavailable},
};

const Row* row_of(cl_int code) {
  for (const auto& row : kRows)
    if (row.code == code) return &row;
  return nullptr;
}

}  // namespace

std::string name_of_cl(cl_int code) {
  const Row* row = row_of(code);
  return fmt::format("{} ({})", row ? row->name : "OpenCL error", code);
}

Error cl_error(cl_int code, std::string_view object) {
  const Row* row = row_of(code);
  return {row ? row->meaning : ErrorCode::kInternal, fmt::format("{}: {}", object, name_of_cl(code))};
}

Error cl_command_error(cl_int status, bool is_launch) {
  // A kernel that broke surfaces under whatever name the vendor likes (NVIDIA: out of resources); waiting for
  // something that failed is the one case that is not its own fault.
  if (is_launch && status != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    return {ErrorCode::kFaulted, fmt::format("kernel: ended with {}", name_of_cl(status))};
  return {ErrorCode::kUnavailable, fmt::format("command: ended with {}", name_of_cl(status))};
}

}  // namespace quern::hal::opencl
