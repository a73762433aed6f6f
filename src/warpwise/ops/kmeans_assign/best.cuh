// The best score of a point that a thread or a warp has found, and its centroid.
#pragma once

struct Best {
  float score;
  int cluster;

  // Keeps the larger score; of equal scores, the smaller index.
  __device__ void take(float other_score, int other_cluster) {
    const bool better = other_score > score || (other_score == score && other_cluster < cluster);
    score = better ? other_score : score;
    cluster = better ? other_cluster : cluster;
  }
};
