// CUDA graphs for host code; graphs.cpp implements them. Work is captured from launches, asynchronous copies and
// asynchronous memsets of every stream, and a graph runs its nodes in the order in which they were added.
#pragma once
#include <vector_types.h>
#include <driver_types.h>

typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void **kernelParams, **extra;
};

struct cudaMemsetParams {
  void* dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
};
struct cudaHostNodeParams {
  cudaHostFn_t fn;
  void* userData;
};
struct cudaMemcpy3DParms;
enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess, cudaGraphExecUpdateError };
struct cudaGraphExecUpdateResultInfo {
  enum cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode, errorFromNode;
};
#define cudaGraphInstantiateFlagAutoFreeOnLaunch 1

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaStreamIsCapturing(cudaStream_t, enum cudaStreamCaptureStatus*);
cudaError_t cudaGraphCreate(cudaGraph_t*, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, size_t* count);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count,
                                   const cudaKernelNodeParams*);
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count,
                                       cudaGraph_t child);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count,
                                   const cudaMemsetParams*);
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count,
                                   const cudaMemcpy3DParms*);
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count,
                                     void* to, const void* from, size_t bytes, enum cudaMemcpyKind);
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count,
                                 const cudaHostNodeParams*);
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t* after, size_t count);
cudaError_t cudaGraphClone(cudaGraph_t* made, cudaGraph_t);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo*);
cudaError_t ww_cuda_graph_instantiate(cudaGraphExec_t*, cudaGraph_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
// Adds a call to the graph that is captured, with a copy of `data`. Returns 0 if there is none.
int ww_cuda_capture(void (*call)(void* data), const void* data, size_t bytes);
int ww_cuda_capturing();
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long = 0) {
  return ww_cuda_graph_instantiate(made, graph);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) {
  return ww_cuda_graph_instantiate(made, graph);
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long = 0) {
  return ww_cuda_graph_instantiate(made, graph);
}

namespace warpwise_host {
// Captures the call of `f`, or calls it.
template <class F>
cudaError_t run_or_capture(const F& f) {
  return ww_cuda_capture([](void* data) { (*static_cast<F*>(data))(); }, &f, sizeof f) ? cudaSuccess : f();
}
}  // namespace warpwise_host
