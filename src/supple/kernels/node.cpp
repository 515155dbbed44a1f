// Interval-wise dropout as an autograd node in C++: what operator.py does in eager mode, with less Python around it.
//
// The work itself is done by libsupple on a CPU, and on a GPU by the program that Triton compiled. Both come as
// addresses: this file needs no header of CUDA, and masks are those of the path in Python. Whatever is unusual about a
// tensor is left to that path.

#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/hardshrink_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Source = std::optional<at::Generator>;
using CpuDrop = void (*)(void*, const void*, int64_t, const void*, const void*, int);
using CpuGate = void (*)(void*, const void*, const void*, int64_t, const void*, int, int);
using LaunchKernel = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                             void**, void**);

// Whether x is of a class of Python's, such as the fake tensors of a compiler.
bool is_subclass(const Tensor& x) { return x.key_set().has_any(c10::python_ks); }

// Whether x fills one stretch of memory of its own, which a program can walk over.
bool is_plain(const Tensor& x) {
  return !is_subclass(x) && x.layout() == at::kStrided && !x.is_nested() && x.has_storage() && !x._is_zerotensor() &&
         !x.is_neg() && x.is_non_overlapping_and_dense();
}

// The backward: the gradient times the scale where y is not 0, else 0.
struct Gate {
  // 0 where y is 0, in operations that are differentiable themselves.
  Tensor by_torch(const Tensor& grad, const Tensor& y) const {
    // The first is one pass, the second knows symbolic shapes.
    Tensor gated = !is_subclass(grad) ? at::hardshrink_backward(grad, y, 0.0)
                                      : at::where(at::eq(y, 0), at::zeros({}, grad.options()), grad);
    return scale == 1.0 ? gated : at::mul(gated, scale);
  }

  Tensor operator()(const Tensor& grad, const Tensor& y) const {
    bool differentiated = at::GradMode::is_enabled() || grad._fw_grad(/*level=*/0).defined();
    if (c_gate == nullptr || differentiated || !is_plain(grad) || grad.strides() != y.strides()) return by_torch(grad, y);
    Tensor out = at::empty_like(grad);
    c_gate(out.mutable_data_ptr(), grad.const_data_ptr(), y.const_data_ptr(), out.numel(), law.data(), 0,
           at::get_num_threads());
    return out;
  }

  double scale;
  CpuGate c_gate;   // on a CPU
  std::string law;  // as the library reads it
};

// Gates live as long as the process: a node holds an address, and there are as many gates as scales and dtypes.
const Gate* kept_gate(double scale, CpuGate c_gate, const std::string& law) {
  static std::mutex mutex;
  static std::map<std::tuple<double, uintptr_t, std::string>, Gate> gates;
  std::lock_guard<std::mutex> alone(mutex);
  auto key = std::make_tuple(scale, reinterpret_cast<uintptr_t>(c_gate), law);
  return &gates.try_emplace(key, Gate{scale, c_gate, law}).first->second;
}

// A law of dropping for tensors of one dtype on one device.
struct Program {
  explicit Program(const Gate* gate) : gate(gate) {}
  virtual ~Program() = default;

  virtual bool serves(const Tensor& x) const { return is_plain(x); }
  virtual void drop(const Tensor& x, const Tensor& y, const Source& generator, uintptr_t stream) const = 0;

  const Gate* const gate;
};

struct CpuProgram final : Program {
  CpuProgram(double scale, uintptr_t drop, uintptr_t gate, std::string law, const std::string& gate_law)
      : Program(kept_gate(scale, reinterpret_cast<CpuGate>(gate), gate_law)),
        c_drop(reinterpret_cast<CpuDrop>(drop)),
        law(std::move(law)) {}

  void drop(const Tensor& x, const Tensor& y, const Source& generator, uintptr_t) const override {
    thread_local Tensor seed = new_seed();
    seed.random_(generator);
    c_drop(y.mutable_data_ptr(), x.const_data_ptr(), x.numel(), law.data(), seed.const_data_ptr(),
           at::get_num_threads());
  }

  static Tensor new_seed() {
    c10::InferenceMode off(false);  // a tensor made inside of it could not be drawn into outside
    return at::empty({}, at::kLong);
  }

  const CpuDrop c_drop;
  const std::string law;
};

struct CudaProgram final : Program {
  CudaProgram(double scale, uintptr_t launch, uintptr_t function, unsigned threads, unsigned shared, int64_t elements,
              std::vector<uint64_t> constants)
      : Program(kept_gate(scale, nullptr, "")),
        launch(reinterpret_cast<LaunchKernel>(launch)),
        function(reinterpret_cast<void*>(function)),
        threads(threads),
        shared(shared),
        elements(elements),
        constants(std::move(constants)) {}

  bool serves(const Tensor& x) const override {
    return is_plain(x) && x.numel() > 0 && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
  }

  void drop(const Tensor& x, const Tensor& y, const Source& generator, uintptr_t stream) const override {
    at::Generator source = *generator;
    uint64_t seed, offset;
    {
      std::lock_guard<std::mutex> alone(source.mutex());
      seed = source.current_seed();
      offset = source.get_offset();
      source.set_offset(offset + 4);  // OFFSET_STEP of cuda_seed.py
    }
    c10::SmallVector<uint64_t, 16> words{reinterpret_cast<uint64_t>(x.const_data_ptr()),
                                         reinterpret_cast<uint64_t>(y.mutable_data_ptr()),
                                         static_cast<uint64_t>(x.numel()), seed, offset};
    words.append(constants.begin(), constants.end());
    c10::SmallVector<void*, 16> arguments;
    for (uint64_t& word : words) arguments.push_back(&word);
    auto programs = static_cast<unsigned>((x.numel() + elements - 1) / elements);
    int failed = launch(function, programs, 1, 1, threads, 1, 1, shared, reinterpret_cast<void*>(stream),
                        arguments.data(), nullptr);
    TORCH_CHECK(failed == 0, "CUDA refused to launch interval-wise dropout: driver error ", failed);
  }

  const LaunchKernel launch;
  void* const function;
  const unsigned threads, shared;
  const int64_t elements;  // that one program instance serves
  const std::vector<uint64_t> constants;  // arguments that are the same in every call
};

struct Drop : torch::autograd::Function<Drop> {
  static constexpr bool is_traceable = true;  // for compiled autograd: backward depends on what it is given alone

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Program* program, const Source& generator,
                        uintptr_t stream, bool inplace) {
    if (inplace) ctx->mark_dirty({x});
    Tensor y = inplace ? x : at::empty_like(x);
    program->drop(x, y, generator, stream);
    ctx->save_for_backward({y});
    ctx->saved_data["gate"] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(program->gate));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto gate = reinterpret_cast<const Gate*>(static_cast<uintptr_t>(ctx->saved_data["gate"].toInt()));
    Tensor y = ctx->get_saved_variables()[0].detach();
    return {(*gate)(grads[0], y), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The output, or None if the path in Python must serve.
std::optional<Tensor> apply(const Program& program, const Tensor& x, const Source& generator, uintptr_t stream,
                            bool inplace) {
  if (!program.serves(x)) return std::nullopt;
  return Drop::apply(x, &program, generator, stream, inplace);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace py = pybind11;
  py::class_<Program>(m, "Program").def("__call__", &apply, py::call_guard<py::gil_scoped_release>());
  py::class_<CpuProgram, Program>(m, "CpuProgram")
      .def(py::init<double, uintptr_t, uintptr_t, py::bytes, py::bytes>());
  py::class_<CudaProgram, Program>(m, "CudaProgram")
      .def(py::init<double, uintptr_t, uintptr_t, unsigned, unsigned, int64_t, std::vector<uint64_t>>());
}
