#include "runtime/tensor/host_run.h"

namespace s2t {

template <class T>
void ProductLoops<T>::grow(Offsets& o, int64_t size, int64_t a, int64_t b, int64_t y) {
  Offsets wider;
  for (size_t i = 0; i < o.a.size(); ++i)
    for (int64_t c = 0; c < size; ++c) {
      wider.a.push_back(o.a[i] + c * a);
      wider.b.push_back(o.b[i] + c * b);
      wider.y.push_back(o.y[i] + c * y);
    }
  o = std::move(wider);
}

template <class T>
bool ProductLoops<T>::classify(const Contract<T>& c) {
  for (Offsets* o : {&batch, &m, &n, &k}) *o = {{0}, {0}, {0}};
  for (int f = 0; f < c.factors; ++f) {
    const int64_t a = c.in_stride[0][f], b = c.in_stride[1][f];
    const bool in_y = f < c.out_factors;
    Offsets* to = in_y ? (a && b ? &batch : a ? &m : b ? &n : nullptr) : (a && b ? &k : nullptr);
    if (!to) return false;
    grow(*to, c.size[f], a, b, in_y ? c.out_stride[f] : 0);
  }
  return true;
}

template <class T>
bool ProductLoops<T>::unit(const std::vector<int64_t>& offsets) {
  for (size_t i = 0; i < offsets.size(); ++i)
    if (offsets[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// y[m n] += alpha a[m k] . b[n k] with unit stride along k.
template <class T>
void ProductLoops<T>::dots(const Contract<T>& c, const ProductLoops& l, const T* a, const T* b,
                           T* y) {
  constexpr size_t kLanes = 8;  // independent sums, so that the compiler may use vectors
  const size_t depth = l.k.a.size(), body = depth / kLanes * kLanes;
  for (size_t i = 0; i < l.m.a.size(); ++i)
    for (size_t j = 0; j < l.n.b.size(); ++j) {
      const T *u = a + l.m.a[i], *v = b + l.n.b[j];
      T lanes[kLanes] = {}, total = 0;
      for (size_t k = 0; k < body; k += kLanes)
        for (size_t s = 0; s < kLanes; ++s) lanes[s] += u[k + s] * v[k + s];
      for (size_t k = body; k < depth; ++k) total += u[k] * v[k];
      for (const T lane : lanes) total += lane;
      y[l.m.y[i] + l.n.y[j]] += c.alpha * total;
    }
}

// y[m n] += alpha a[m k] b[k n], row by row; unit strides along n make the inner loop a vector one.
template <class T>
void ProductLoops<T>::sums(const Contract<T>& c, const ProductLoops& l, const T* a, const T* b,
                           T* y) {
  const size_t width = l.n.b.size();
  const bool straight = unit(l.n.b) && unit(l.n.y);
  std::vector<T> row(width);
  for (size_t i = 0; i < l.m.a.size(); ++i) {
    row.assign(width, T(0));
    for (size_t k = 0; k < l.k.a.size(); ++k) {
      const T x = a[l.m.a[i] + l.k.a[k]];
      const T* v = b + l.k.b[k];
      if (straight)
        for (size_t j = 0; j < width; ++j) row[j] += x * v[j];
      else
        for (size_t j = 0; j < width; ++j) row[j] += x * v[l.n.b[j]];
    }
    for (size_t j = 0; j < width; ++j) y[l.m.y[i] + l.n.y[j]] += c.alpha * row[j];
  }
}

template <class T>
void ProductLoops<T>::run(const Contract<T>& c) const {
  const bool along_k = unit(k.a) && unit(k.b);
  for (size_t i = 0; i < batch.a.size(); ++i) {
    const T *a = c.in[0] + batch.a[i], *b = c.in[1] + batch.b[i];
    T* y = c.out + batch.y[i];
    if (along_k)
      dots(c, *this, a, b, y);
    else
      sums(c, *this, a, b, y);
  }
}

template struct ProductLoops<float>;
template struct ProductLoops<double>;

}  // namespace s2t
