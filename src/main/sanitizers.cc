// SPDX-License-Identifier: Apache-2.0
//
// What a sanitizer finds ends the process, also in executors and builders, whose exit code and log nobody reads: the
// call that was running then fails, and with it its test.

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }
#endif
