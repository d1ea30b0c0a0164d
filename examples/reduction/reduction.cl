// SPDX-License-Identifier: Apache-2.0

// Leaves the sum and the maximum of a group's values in element 0; the group's size is a power of two. Every item
// comes to every barrier: those that have nothing left to add come too.
void reduce_group(__local float* restrict sums, __local float* restrict maxima, uint item, uint items) {
  for (uint half_size = items / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_size) {
      sums[item] += sums[item + half_size];
      maxima[item] = fmax(maxima[item], maxima[item + half_size]);
    }
  }
}

// An item reads a run of neighbours, which on a CPU is what memory likes best, with eight sums at a time.
__kernel void reduce_runs(__global const float* restrict x, __global float* restrict sums,
                          __global float* restrict maxima, uint n, uint run, __local float* restrict group_sums,
                          __local float* restrict group_maxima) {
  const uint item = get_local_id(0);
  const uint begin = min((uint)get_global_id(0) * run, n);
  const uint end = min(begin + run, n);
  float8 sum8 = 0, largest8 = -INFINITY;
  uint i = begin;
  for (; i + 8 <= end; i += 8) {
    const float8 values = vload8(0, x + i);
    sum8 += values;
    largest8 = fmax(largest8, values);
  }
  const float4 sum4 = sum8.lo + sum8.hi, largest4 = fmax(largest8.lo, largest8.hi);
  float sum = sum4.x + sum4.y + sum4.z + sum4.w;
  float largest = fmax(fmax(largest4.x, largest4.y), fmax(largest4.z, largest4.w));
  for (; i < end; ++i) {
    sum += x[i];
    largest = fmax(largest, x[i]);
  }
  group_sums[item] = sum;
  group_maxima[item] = largest;
  reduce_group(group_sums, group_maxima, item, get_local_size(0));
  if (item == 0) {
    sums[get_group_id(0)] = group_sums[0];
    maxima[get_group_id(0)] = group_maxima[0];
  }
}

__kernel void reduce_groups(__global const float* restrict sums, __global const float* restrict maxima,
                            __global float* restrict sum, __global float* restrict largest,
                            __local float* restrict group_sums, __local float* restrict group_maxima) {
  const uint item = get_local_id(0);
  group_sums[item] = sums[item];
  group_maxima[item] = maxima[item];
  reduce_group(group_sums, group_maxima, item, get_local_size(0));
  if (item == 0) {
    sum[0] = group_sums[0];
    largest[0] = group_maxima[0];
  }
}
