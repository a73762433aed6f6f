// cuDNN's graph patterns that cudnn-frontend's Python package cannot express: bn_finalize, dbn_weight and resample have
// no Python binding. The package ships the C++ headers; cudnn_graphs.py compiles this file and calls it by ctypes.
//
// x: (N, C, H, W), w: (K, C, 3, 3), y: (N, K, H, W), z: (N, K, H / 2, W / 2), all float16 in NHWC order; vectors
// (1, K, 1, 1) and (1, C, 1, 1) are float32. A tensor's uid is its position in the list of arguments, from 1.

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace fe = cudnn_frontend;
void* fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);  // that of the process, if it has loaded one
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Attributes = fe::graph::Tensor_attributes;
using Pointwise = fe::graph::Pointwise_attributes;
using Mode = fe::PointwiseMode_t;
using Type = fe::DataType_t;

namespace {

struct Sizes {
  int64_t n, c, h, w, k;
};

struct Pattern {
  fe::graph::Graph graph;
  int64_t uid = 1;

  Tensor input(std::vector<int64_t> size, Type type) {
    const int64_t c = size[1], h = size[2], w = size[3];
    return graph.tensor(
        Attributes().set_dim(size).set_stride({c * h * w, 1, c * w, c}).set_data_type(type).set_uid(uid++));
  }
  Tensor image(int64_t n, int64_t c, int64_t h, int64_t w) { return input({n, c, h, w}, Type::HALF); }
  Tensor vector(int64_t c) { return input({1, c, 1, 1}, Type::FLOAT); }
  Tensor apply(Mode mode, Tensor a, Tensor b) { return graph.pointwise(a, b, Pointwise().set_mode(mode)); }
  void result(Tensor tensor, Type type) { tensor->set_output(true).set_data_type(type).set_uid(uid++); }
};

// Arguments: sum, sum of squares, gamma, beta, running mean and variance; scale, shift, mean, 1 / standard deviation,
// next running mean and variance. Without running statistics the frontend's bn_finalize reads a null pointer.
void finalize(Pattern& pattern, const Sizes& size) {
  auto& graph = pattern.graph;
  auto sum = pattern.vector(size.k), squares = pattern.vector(size.k);
  auto gamma = pattern.vector(size.k), beta = pattern.vector(size.k);
  auto running_mean = pattern.vector(size.k), running_var = pattern.vector(size.k);
  auto options = fe::graph::BN_finalize_attributes();
  auto momentum = graph.tensor(0.1f), eps = graph.tensor(1e-5f), count = graph.tensor(size.n * size.h * size.w);
  options.set_previous_running_stats(running_mean, running_var, momentum);
  for (auto& tensor : graph.bn_finalize(sum, squares, gamma, beta, eps, count, options))
    pattern.result(tensor, Type::FLOAT);
}

// Arguments: y, scale >= 0, shift; z = relu(scale m + shift) of the maxima m over 2 x 2 windows of y, which are the
// maxima of relu(scale y + shift). cuDNN reads the input of a pooling from memory: a pooling of another operation's
// result has plans too, and they return NaN. It takes no padding mode but NEG_INF_PAD.
void normalise_pool(Pattern& pattern, const Sizes& size) {
  auto& graph = pattern.graph;
  auto y = pattern.image(size.n, size.k, size.h, size.w);
  auto scale = pattern.vector(size.k), shift = pattern.vector(size.k);
  auto pooling = fe::graph::Resample_attributes()
                     .set_resampling_mode(fe::ResampleMode_t::MAXPOOL)
                     .set_padding_mode(fe::PaddingMode_t::NEG_INF_PAD)
                     .set_generate_index(false)
                     .set_window({2, 2})
                     .set_stride({2, 2})
                     .set_pre_padding({0, 0})
                     .set_post_padding({0, 0});
  auto maxima = graph.resample(y, pooling)[0];
  auto normal = pattern.apply(Mode::ADD, pattern.apply(Mode::MUL, maxima, scale), shift);
  pattern.result(graph.pointwise(normal, Pointwise().set_mode(Mode::RELU_FWD)), Type::HALF);
}

// Arguments: dy of the next convolution, its w, x before its normalisation, mean, 1 / standard deviation, gamma, beta
// of that normalisation; g = the gradient of the normalised x, dgamma, dbeta, and a, b, c with dx = a g + b x + c.
void dgrad_drelu_dbn(Pattern& pattern, const Sizes& size) {
  auto dy = pattern.image(size.n, size.k, size.h, size.w);
  auto w = pattern.image(size.k, size.c, 3, 3);
  auto x = pattern.image(size.n, size.c, size.h, size.w);
  auto mean = pattern.vector(size.c), deviation = pattern.vector(size.c);
  auto gamma = pattern.vector(size.c), beta = pattern.vector(size.c);
  auto convolution = fe::graph::Conv_dgrad_attributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1});
  auto dgrad = pattern.graph.conv_dgrad(dy, w, convolution);
  dgrad->set_dim({size.n, size.c, size.h, size.w});
  auto centred = pattern.apply(Mode::SUB, x, mean);
  auto scaled = pattern.apply(Mode::MUL, pattern.apply(Mode::MUL, centred, deviation), gamma);
  auto normal = pattern.apply(Mode::ADD, scaled, beta);
  auto g = pattern.apply(Mode::RELU_BWD, dgrad, normal);
  pattern.result(g, Type::HALF);
  auto results = pattern.graph.dbn_weight(g, x, mean, deviation, gamma, fe::graph::DBN_weight_attributes());
  for (auto& tensor : results) pattern.result(tensor, Type::FLOAT);
}

int failed(fe::error_t error, char* message, int64_t room) {
  if (error.is_good()) return 0;
  std::strncpy(message, error.get_message().c_str(), room - 1);
  return 1;
}

}  // namespace

extern "C" {

// The graph of a pattern with the plans that the heuristics propose, or null with a message.
void* make_pattern(cudnnHandle_t handle, const char* name, const int64_t* sizes, char* message, int64_t room) {
  const Sizes size{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
  auto pattern = std::make_unique<Pattern>();
  auto& graph = pattern->graph;
  graph.set_io_data_type(Type::HALF).set_intermediate_data_type(Type::FLOAT).set_compute_data_type(Type::FLOAT);
  const std::unordered_map<std::string, std::function<void(Pattern&, const Sizes&)>> known{
      {"finalize", finalize}, {"normalise_pool", normalise_pool}, {"dgrad_drelu_dbn", dgrad_drelu_dbn}};
  known.at(name)(*pattern, size);
  const bool wrong = failed(graph.validate(), message, room) ||
                     failed(graph.build_operation_graph(handle), message, room) ||
                     failed(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), message, room);
  return wrong ? nullptr : pattern.release();
}

int64_t plans(void* pattern) { return static_cast<Pattern*>(pattern)->graph.get_execution_plan_count(); }

int build_plan(cudnnHandle_t handle, void* pattern, int64_t plan, char* message, int64_t room) {
  return failed(static_cast<Pattern*>(pattern)->graph.build_plan_at_index(handle, plan), message, room);
}

int64_t workspace(void* pattern, int64_t plan) {
  return static_cast<Pattern*>(pattern)->graph.get_workspace_size_plan_at_index(plan);
}

int run_pattern(cudnnHandle_t handle, void* pattern, int64_t plan, void** pointers, int64_t count, void* workspace,
                char* message, int64_t room) {
  std::unordered_map<int64_t, void*> pack;
  for (int64_t position = 0; position < count; ++position) pack[position + 1] = pointers[position];
  auto& graph = static_cast<Pattern*>(pattern)->graph;
  return failed(graph.execute_plan_at_index(handle, pack, workspace, plan), message, room);
}

}  // extern "C"
