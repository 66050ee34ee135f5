// Plans are carried out: every rank of a small mesh holds its part of a tensor, the collectives are
// played by their definitions, and what the ranks hold in the end is what the target layout says.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "analyzer/base/diagnostics.h"
#include "analyzer/comm/redistribute.h"

namespace s2t {
namespace {

// A matrix, whole or one rank's part. Only the test's own arithmetic touches it.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> at;

  Matrix(int64_t r, int64_t c) : rows(r), columns(c), at(static_cast<size_t>(r * c)) {}
  int64_t& operator()(int64_t r, int64_t c) { return at[static_cast<size_t>(r * columns + c)]; }
  int64_t operator()(int64_t r, int64_t c) const {
    return at[static_cast<size_t>(r * columns + c)];
  }
  bool operator==(const Matrix&) const = default;
};

// Block `i` of `n` along a dim.
Matrix block(const Matrix& m, int dim, int64_t i, int64_t n) {
  Matrix out(dim == 0 ? m.rows / n : m.rows, dim == 1 ? m.columns / n : m.columns);
  for (int64_t r = 0; r < out.rows; ++r)
    for (int64_t c = 0; c < out.columns; ++c)
      out(r, c) = m(r + (dim == 0 ? i * out.rows : 0), c + (dim == 1 ? i * out.columns : 0));
  return out;
}

Matrix side_by_side(const std::vector<Matrix>& blocks, int dim) {
  const auto n = static_cast<int64_t>(blocks.size());
  const Matrix& first = blocks[0];
  Matrix out(first.rows * (dim == 0 ? n : 1), first.columns * (dim == 1 ? n : 1));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t r = 0; r < first.rows; ++r)
      for (int64_t c = 0; c < first.columns; ++c)
        out(r + (dim == 0 ? i * first.rows : 0), c + (dim == 1 ? i * first.columns : 0)) =
            blocks[static_cast<size_t>(i)](r, c);
  return out;
}

Matrix sum(const std::vector<Matrix>& terms) {
  Matrix out = terms[0];
  for (size_t t = 1; t < terms.size(); ++t)
    for (size_t i = 0; i < out.at.size(); ++i) out.at[i] += terms[t].at[i];
  return out;
}

class Ranks {
 public:
  Ranks(const Mesh& mesh, Matrix whole) : mesh_(mesh), whole_(std::move(whole)) {}

  // What the layout says: cut by each axis in turn, slowest first. Of a sum, every coordinate but
  // the first of a Partial axis holds an arbitrary term, and the first what is missing.
  void hold(const Layout& layout) {
    held_.clear();
    for (int64_t r = 0; r < mesh_.world(); ++r) {
      Matrix term = whole_;
      const int64_t c = mesh_.coordinate(Rank(static_cast<size_t>(r)), layout.partial());
      if (layout.any_partial()) term = term_of(c, mesh_.size(layout.partial()));
      held_.push_back(part(term, layout, Rank(static_cast<size_t>(r))));
    }
  }

  bool hold_what_it_says(const Layout& layout) const {
    for (size_t r = 0; r < held_.size(); ++r) {
      std::vector<Matrix> terms;
      for (const Rank peer : group(layout.partial(), Rank(r))) terms.push_back(held_[peer.at()]);
      for (const Matrix& t : terms)
        if (t.rows != terms[0].rows || t.columns != terms[0].columns) return false;
      if (sum(terms) != part(whole_, layout, Rank(r))) return false;
    }
    return true;
  }

  // Carries out one step; the bytes of every rank are those the table promises for one-byte
  // elements.
  void run(const Step& s) {
    const std::vector<Matrix> before = held_;
    const int64_t n = mesh_.size(s.atoms);
    for (size_t r = 0; r < held_.size(); ++r) {
      std::vector<Matrix> peers;
      for (const Rank peer : group(s.atoms, Rank(r))) peers.push_back(before[peer.at()]);
      const int64_t me = mesh_.coordinate(Rank(r), s.atoms);
      held_[r] = s.collective ? collective(s, peers, me, n) : local(s, before[r], me, n);
      if (s.collective) expect_bytes(*s.collective, before[r], held_[r], n);
    }
  }

 private:
  std::vector<Rank> group(AtomSet atoms, Rank rank) const {
    std::vector<Rank> ranks;
    for (size_t r = 0; r < static_cast<size_t>(mesh_.world()); ++r) {
      bool mine = true;
      for (size_t a = 0; a < mesh_.atoms().size(); ++a)
        mine &= contains(atoms, AtomIndex(a)) ||
                mesh_.coordinate(Rank(r), AtomIndex(a)) == mesh_.coordinate(rank, AtomIndex(a));
      if (mine) ranks.push_back(Rank(r));
    }
    return ranks;
  }

  Matrix part(Matrix m, const Layout& layout, Rank rank) const {
    for (size_t a = 0; a < layout.size(); ++a)
      if (const Placement p = layout[AtomIndex(a)]; p.is_shard())
        m = block(m, p.dim, mesh_.coordinate(rank, AtomIndex(a)), mesh_.atoms()[a].size);
    return m;
  }

  Matrix term_of(int64_t coordinate, int64_t terms) const {
    Matrix out = whole_;
    const auto noise = [](int64_t term, size_t i) {
      return (term * 7919 + static_cast<int64_t>(i) * 104729) % 1009;
    };
    for (size_t i = 0; i < out.at.size(); ++i) {
      if (coordinate != 0) out.at[i] = noise(coordinate, i);
      for (int64_t t = 1; coordinate == 0 && t < terms; ++t) out.at[i] -= noise(t, i);
    }
    return out;
  }

  static Matrix collective(const Step& s, const std::vector<Matrix>& peers, int64_t me, int64_t n) {
    switch (*s.collective) {
      case Collective::all_reduce:
        return sum(peers);
      case Collective::reduce_scatter:
        return block(sum(peers), s.to_dim, me, n);
      case Collective::all_gather:
        return side_by_side(peers, s.from_dim);
      case Collective::all_to_all: {
        std::vector<Matrix> received;
        for (const Matrix& p : peers) received.push_back(block(p, s.to_dim, me, n));
        return side_by_side(received, s.from_dim);
      }
      default:
        throw Fault("no redistribution issues this");
    }
  }

  static Matrix local(const Step& s, const Matrix& mine, int64_t me, int64_t n) {
    const Placement to = s.after[first(s)], from = s.before[first(s)];
    if (to.is_shard()) return block(mine, to.dim, me, n);
    if (!from.is_shard()) return me == 0 ? mine : Matrix(mine.rows, mine.columns);
    std::vector<Matrix> among_zeros(static_cast<size_t>(n), Matrix(mine.rows, mine.columns));
    among_zeros[static_cast<size_t>(me)] = mine;
    return side_by_side(among_zeros, from.dim);
  }

  static AtomIndex first(const Step& s) {
    size_t a = 0;
    while (!contains(s.atoms, AtomIndex(a))) ++a;
    return AtomIndex(a);
  }

  static void expect_bytes(Collective op, const Matrix& in, const Matrix& out, int64_t n) {
    const Count before = in.at.size(), after = out.at.size(), ranks = static_cast<Count>(n);
    const Volume v = volume(op, step_elements(op, before, after), 1, n);
    EXPECT_EQ(v.input_bytes, before);
    EXPECT_EQ(v.output_bytes, after);
    const Count wire = op == Collective::all_gather       ? after - before
                       : op == Collective::reduce_scatter ? before - after
                       : op == Collective::all_to_all     ? before - before / ranks
                                                          : 2 * (before - before / ranks);
    EXPECT_EQ(v.wire_bytes, wire);
  }

  const Mesh& mesh_;
  const Matrix whole_;
  std::vector<Matrix> held_;
};

Ranks ranks_of(const Mesh& mesh) {
  Matrix whole(mesh.world(), mesh.world());
  std::iota(whole.at.begin(), whole.at.end(), 1);
  return {mesh, std::move(whole)};
}

std::vector<Layout> all_layouts(const Mesh& mesh) {
  const Placement kinds[] = {Placement::R(), Placement::P(), Placement::S(0), Placement::S(1)};
  std::vector<Layout> list{Layout(mesh)};
  for (size_t a = 0; a < mesh.atoms().size(); ++a) {
    std::vector<Layout> longer;
    for (Layout l : list)
      for (const Placement p : kinds) {
        l[AtomIndex(a)] = p;
        longer.push_back(l);
      }
    list = std::move(longer);
  }
  return list;
}

// No dim is cut by two axes: nothing is in anybody's way.
bool simple(const Layout& from, const Layout& to) {
  for (const int d : {0, 1})
    if (const AtomSet set = from.sharding(d) | to.sharding(d); set & (set - 1)) return false;
  return true;
}

AxisShape axis(const char* name, int64_t size) {
  return {name, size, AxisKind::model, {}};
}

const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> list{
      Mesh({axis("a", 3)}, {}),
      Mesh({axis("a", 2), axis("b", 3)}, {}),
      Mesh({axis("a", 2), axis("b", 2), axis("c", 2)}, {}),
      Mesh({axis("a", 3), axis("b", 1), axis("c", 2)}, {}),
      Mesh({axis("a", 2), {"b", 4, AxisKind::model, {axis("b0", 2), axis("b1", 2)}}}, {}),
  };
  return list;
}

class EveryPair : public testing::TestWithParam<size_t> {};

TEST_P(EveryPair, OfLayoutsIsLinkedByStepsThatMoveTheRightBlocks) {
  const Mesh& mesh = meshes()[GetParam()];
  Ranks ranks = ranks_of(mesh);
  std::mt19937 random(5);
  for (const Layout& from : all_layouts(mesh))
    for (const Layout& to : all_layouts(mesh)) {
      const AtomSet fuse = random() % 3 ? 0 : static_cast<AtomSet>(random() % 8);
      const auto steps = plan_redistribution(from, to, mesh, fuse);
      ranks.hold(from);
      for (const Step& s : steps) ranks.run(s);
      ASSERT_TRUE(ranks.hold_what_it_says(to))
          << to_string(from, mesh) << " to " << to_string(to, mesh) << ", fusing " << fuse;
      if (simple(from, to)) {
        ASSERT_LE(steps.size(), mesh.atoms().size());
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Meshes, EveryPair, testing::Range(size_t{0}, meshes().size()));

// Swapped axes on one dim: the order of blocks matters, and the simulation sees it.
TEST(Simulation, SeesBlocksInTheWrongOrder) {
  const Mesh mesh({axis("a", 2), axis("b", 2)}, {});
  Layout from(mesh), to(mesh);
  from[AtomIndex(0)] = Placement::S(0);
  to[AtomIndex(1)] = Placement::S(0);
  Ranks ranks = ranks_of(mesh);
  const auto ends_right = [&](Blocks blocks) {
    ranks.hold(from);
    for (const Step& s : plan_redistribution(from, to, mesh, 0, blocks)) ranks.run(s);
    return ranks.hold_what_it_says(to);
  };
  EXPECT_TRUE(ends_right(Blocks::in_order));
  EXPECT_FALSE(ends_right(Blocks::any_order));
}

std::string plan_text(const Mesh& mesh, std::vector<Placement> from, std::vector<Placement> to) {
  Layout a(mesh), b(mesh);
  for (size_t i = 0; i < from.size(); ++i) {
    a[AtomIndex(i)] = from[i];
    b[AtomIndex(i)] = to[i];
  }
  std::string text;
  for (const Step& s : plan_redistribution(a, b, mesh))
    text += (text.empty() ? "" : ", ") +
            (s.collective ? std::string(info(*s.collective).name) : std::string("local")) + " " +
            mesh.family_of(s.atoms).name;
  return text;
}

TEST(NestedShards, InnerAxesStepAside) {
  const Mesh mesh({axis("a", 2), axis("b", 2)}, {});
  const Placement R = Placement::R(), P = Placement::P(), S0 = Placement::S(0),
                  S1 = Placement::S(1);
  EXPECT_EQ(plan_text(mesh, {S0, S0}, {S0, R}), "all_gather b");
  EXPECT_EQ(plan_text(mesh, {S0, S0}, {R, R}), "all_gather b, all_gather a");
  EXPECT_EQ(plan_text(mesh, {S0, S0}, {R, S0}), "all_gather b, all_gather a, local b");
  EXPECT_EQ(plan_text(mesh, {R, S0}, {S0, S0}), "all_gather b, local a, local b");
  EXPECT_EQ(plan_text(mesh, {S0, R}, {R, S0}), "all_gather a, local b");
  EXPECT_EQ(plan_text(mesh, {S0, S1}, {S1, S0}), "all_gather b, all_to_all a, local b");
  EXPECT_EQ(plan_text(mesh, {P, P}, {S0, S0}), "reduce_scatter a, reduce_scatter b");
  EXPECT_EQ(plan_text(mesh, {P, S0}, {S0, S0}), "all_gather b, reduce_scatter a, local b");
  EXPECT_EQ(plan_text(mesh, {R, R}, {S0, S0}), "local a, local b");
}

}  // namespace
}  // namespace s2t
