// Every operation on every type, against values computed here in double.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <functional>

#include "tests/standins/selftest/driver.h"

namespace s2t::selftest {
namespace {

// Small integers, exact in every type; products over up to 8 ranks stay below 127.
double at(int rank, size_t i) {
  return 1 + (static_cast<size_t>(rank) + i) % 2 * (i % 3 != 0);
}

template <class T>
T make(double x) {
  return static_cast<T>(x);
}
template <>
__half make<__half>(double x) {
  return __float2half(static_cast<float>(x));
}
template <>
__nv_bfloat16 make<__nv_bfloat16>(double x) {
  return __float2bfloat16(static_cast<float>(x));
}
template <class T>
double value(T x) {
  return static_cast<double>(x);
}
double value(__half x) {
  return __half2float(x);
}
double value(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <class T>
std::vector<T> input(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = make<T>(at(rank, i));
  return values;
}

template <class T>
void expect(Rank& me, Array<T>& array, const std::function<double(size_t)>& wanted) {
  const std::vector<T> got = array.read(me.stream);
  for (size_t i = 0; i < got.size(); ++i) {
    const T rounded = make<T>(wanted(i));
    if (value(got[i]) == value(rounded)) continue;
    std::printf("element %zu of %zu: %g, not %g\n", i, got.size(), value(got[i]), value(rounded));
    std::exit(1);
  }
}

double reduced(int size, ncclRedOp_t op, size_t i, bool integer) {
  double result = at(0, i);
  for (int r = 1; r < size; ++r) {
    const double x = at(r, i);
    result = op == ncclProd  ? result * x
             : op == ncclMax ? std::max(result, x)
             : op == ncclMin ? std::min(result, x)
                             : result + x;
  }
  if (op != ncclAvg) return result;
  // A float average may differ in the last place from the stand-in's quotient only by rounding;
  // both are one division of exact numbers.
  return integer ? static_cast<double>(static_cast<long>(result) / size) : result / size;
}

template <class T>
void all_types_of_reduction(Rank& me, ncclDataType_t dtype, size_t count) {
  constexpr bool kInteger = std::is_integral_v<T>;
  for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
    const auto wanted = [&](size_t i) { return reduced(me.size, op, i, kInteger); };
    Array<T> in(input<T>(me.rank, count)), out(count);
    NCCL(ncclAllReduce(in.data(), out.data(), count, dtype, op, me.world, me.stream));
    expect<T>(me, out, wanted);
    NCCL(ncclAllReduce(in.data(), in.data(), count, dtype, op, me.world, me.stream));
    expect<T>(me, in, wanted);

    const size_t whole = count * static_cast<size_t>(me.size);
    Array<T> parts(input<T>(me.rank, whole)), mine(count);
    NCCL(ncclReduceScatter(parts.data(), mine.data(), count, dtype, op, me.world, me.stream));
    expect<T>(me, mine, [&](size_t i) {
      return reduced(me.size, op, static_cast<size_t>(me.rank) * count + i, kInteger);
    });

    const int root = me.size - 1;
    Array<T> again(input<T>(me.rank, count)), sum(count);
    NCCL(ncclReduce(again.data(), sum.data(), count, dtype, op, root, me.world, me.stream));
    if (me.rank == root) expect<T>(me, sum, wanted);
  }
}

template <class T>
void moves(Rank& me, ncclDataType_t dtype, size_t count) {
  const size_t whole = count * static_cast<size_t>(me.size);
  const int root = me.size / 2;
  Array<T> in(input<T>(me.rank, count)), gathered(whole), copied(count);
  NCCL(ncclAllGather(in.data(), gathered.data(), count, dtype, me.world, me.stream));
  expect<T>(me, gathered, [&](size_t i) { return at(static_cast<int>(i / count), i % count); });
  NCCL(ncclBroadcast(in.data(), copied.data(), count, dtype, root, me.world, me.stream));
  expect<T>(me, copied, [&](size_t i) { return at(root, i); });

  Array<T> parts(input<T>(me.rank, whole)), swapped(whole);
  NCCL(ncclAlltoAll(parts.data(), swapped.data(), count, dtype, me.world, me.stream));
  expect<T>(me, swapped, [&](size_t i) {
    return at(static_cast<int>(i / count), static_cast<size_t>(me.rank) * count + i % count);
  });

  const int next = (me.rank + 1) % me.size, previous = (me.rank + me.size - 1) % me.size;
  Array<T> received(count);
  NCCL(ncclGroupStart());
  NCCL(ncclSend(in.data(), count, dtype, next, me.world, me.stream));
  NCCL(ncclRecv(received.data(), count, dtype, previous, me.world, me.stream));
  NCCL(ncclGroupEnd());
  expect<T>(me, received, [&](size_t i) { return at(previous, i); });
}

template <class T>
void one_type(Rank& me, ncclDataType_t dtype) {
  for (const size_t count : {size_t{1}, size_t{1000}}) {
    all_types_of_reduction<T>(me, dtype, count);
    moves<T>(me, dtype, count);
  }
}

}  // namespace

void values(Rank& me) {
  one_type<float>(me, ncclFloat32);
  one_type<double>(me, ncclFloat64);
  one_type<__half>(me, ncclFloat16);
  one_type<__nv_bfloat16>(me, ncclBfloat16);
  one_type<int32_t>(me, ncclInt32);
  one_type<int64_t>(me, ncclInt64);
  one_type<int8_t>(me, ncclInt8);
  one_type<uint8_t>(me, ncclUint8);
  // Many chunks, for slots and mailboxes.
  all_types_of_reduction<float>(me, ncclFloat32, 40'001);
  moves<float>(me, ncclFloat32, 40'001);
}

}  // namespace s2t::selftest
