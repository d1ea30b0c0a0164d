// SPDX-License-Identifier: Apache-2.0
//
// PoCL 3.1 loads the code of a kernel several times: by the size of groups, by whether a launch has an offset, and by
// how wide it is. It counts who uses which; but when a launch ends it looks for its code by kernel and size of groups
// alone, and takes the one that was used last. With three launches there at once, of which the last differs from the
// others (lanes of one executor, one of which is cut into slices), it counts below zero and aborts.
//
// The count is there only to close code that nobody uses, and since PoCL counts each launch twice and takes it back
// once it never closes any. So nothing is lost if nothing is taken back: PoCL's own call comes here, since the dynamic
// linker looks into the program first (CMakeLists.txt exports this).
extern "C" void pocl_release_dlhandle_cache(void*);
extern "C" void pocl_release_dlhandle_cache(void*) {}
