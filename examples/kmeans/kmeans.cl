// SPDX-License-Identifier: Apache-2.0
//
// `assign` takes a block of points, 16 at a time: their coordinates are turned round so that a vector holds one
// coordinate of 16 points, and all 16 distances to a centroid grow together. It also sums up its block by centroid.
// `update` adds the blocks in order. Nothing depends on the order in which work-items run.
#pragma OPENCL FP_CONTRACT ON

#define MOST 64  // coordinates, as in function.yaml

__kernel void begin(__global const float* restrict start, __global float* restrict centroids, uint count) {
  const uint i = get_global_id(0);
  if (i < count) centroids[i] = start[i];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void assign(__global const float* restrict points, __global const float* restrict centroids,
            __global uint* restrict labels, __global float* restrict sums, __global uint* restrict counts, uint n,
            uint k, uint d) {
  const uint block = get_global_id(0), first = block * BLOCK, last = min(first + BLOCK, n);
  __global float* sum = sums + block * k * d;
  __global uint* count = counts + block * k;
  for (uint i = 0; i < k * d; ++i) sum[i] = 0;
  for (uint i = 0; i < k; ++i) count[i] = 0;
  for (uint point = first; point < last; point += 16) {
    float16 x[MOST];
    for (uint i = 0; i < 16; ++i) {
      __global const float* from = points + min(point + i, n - 1) * d;  // past the last point: the last one again
      for (uint j = 0; j < d; ++j) ((float*)(x + j))[i] = from[j];
    }
    float16 least = INFINITY;
    int16 nearest = 0;
    for (uint first_of_four = 0; first_of_four < k; first_of_four += 4) {
      __global const float* four[4];
      float16 distances[4];
#pragma unroll
      for (uint i = 0; i < 4; ++i) {
        four[i] = centroids + min(first_of_four + i, k - 1) * d;  // past the last centroid: the last one again
        distances[i] = 0;
      }
      for (uint j = 0; j < d; ++j) {
        const float16 from = x[j];
#pragma unroll
        for (uint i = 0; i < 4; ++i) distances[i] += (from - four[i][j]) * (from - four[i][j]);
      }
      // Of centroids equally near the first is taken; so one that comes again is never nearer.
#pragma unroll
      for (uint i = 0; i < 4; ++i) {
        const int16 is_nearer = distances[i] < least;
        least = is_nearer ? distances[i] : least;
        nearest = is_nearer ? (int16)((int)(first_of_four + i)) : nearest;
      }
    }
    for (uint i = 0; i < min(last - point, 16u); ++i) {
      const uint label = ((int*)&nearest)[i];
      labels[point + i] = label;
      ++count[label];
      for (uint j = 0; j < d; ++j) sum[label * d + j] += ((float*)(x + j))[i];
    }
  }
}

__kernel void update(__global const float* restrict sums, __global const uint* restrict counts,
                     __global float* restrict centroids, __global float* restrict shifts, uint blocks, uint k, uint d) {
  const uint c = get_global_id(0);
  if (c >= k) return;
  float mean[MOST] = {0};
  uint count = 0;
  for (uint block = 0; block < blocks; ++block) {
    count += counts[block * k + c];
    for (uint j = 0; j < d; ++j) mean[j] += sums[(block * k + c) * d + j];
  }
  float shift = 0;
  if (count > 0) {  // a centroid without points stays where it is
    for (uint j = 0; j < d; ++j) {
      mean[j] /= count;
      shift += (mean[j] - centroids[c * d + j]) * (mean[j] - centroids[c * d + j]);
      centroids[c * d + j] = mean[j];
    }
  }
  shifts[c] = sqrt(shift);
}

__kernel void count_moved(__global const float* restrict shifts, __global uint* restrict moved, uint k,
                          float tolerance) {
  uint count = 0;
  for (uint c = 0; c < k; ++c) count += shifts[c] > tolerance;
  moved[0] = count;
}
