// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quern::daemon {

/// Items by number on shelves by name, so many in all. Where there is no room for one more, the fullest shelf loses
/// what was used least lately: who brings ever new things drives out its own.
///
/// It remembers what changed until that is taken, so that it can be stored elsewhere a little at a time.
template <class Name, class Item>
class Shelves {
 public:
  explicit Shelves(size_t most) : most_(most) {}
  Shelves(const Shelves&) = delete;
  Shelves& operator=(const Shelves&) = delete;

  /// Null if it is not there. Looking is not using.
  const Item* find(const Name& name, uint64_t number) const {
    const auto shelf = shelves_.find(name);
    if (shelf == shelves_.end()) return nullptr;
    const auto place = shelf->second.places.find(number);
    return place == shelf->second.places.end() ? nullptr : &place->second->item;
  }

  /// Made if it is not there; used last of all from now on.
  Item& use(const Name& name, uint64_t number, bool changes) {
    const auto [shelf, place] = place_of(name, number);
    if (changes && !place->change) place->change = changed_.insert(changed_.end(), {&shelf->first, &*place});
    return place->item;
  }

  void forget(const Name& name) {
    const auto shelf = shelves_.find(name);
    if (shelf == shelves_.end()) return;
    while (!shelf->second.entries.empty()) drop_oldest(shelf->second);
    shelves_.erase(shelf);
  }

  /// With each number and item of a shelf, in the order they were used.
  template <class F>
  void each(const Name& name, F&& work) const {
    if (const auto shelf = shelves_.find(name); shelf != shelves_.end())
      for (const Entry& entry : shelf->second.entries) work(entry.number, entry.item);
  }

  /// With name, number and item of what changed since it was taken, the first to change first; at most so many.
  template <class F>
  void take_changed(size_t most, F&& work) {
    for (; most > 0 && !changed_.empty(); --most) {
      const auto [name, entry] = changed_.front();
      changed_.pop_front();
      entry->change.reset();
      work(*name, entry->number, std::as_const(entry->item));
    }
  }

  size_t size() const { return size_; }

 private:
  struct Entry;
  using Changes = std::list<std::pair<const Name*, Entry*>>;
  struct Entry {
    uint64_t number = 0;
    Item item;
    std::optional<typename Changes::iterator> change = {};
  };
  using Entries = std::list<Entry>;
  struct Shelf {
    Entries entries;  ///< the one used least lately first
    std::unordered_map<uint64_t, typename Entries::iterator> places;
  };
  using ShelfPlace = typename std::map<Name, Shelf>::iterator;

  std::pair<ShelfPlace, typename Entries::iterator> place_of(const Name& name, uint64_t number) {
    ShelfPlace shelf = shelves_.find(name);
    if (shelf != shelves_.end()) {
      Entries& entries = shelf->second.entries;
      if (const auto known = shelf->second.places.find(number); known != shelf->second.places.end()) {
        entries.splice(entries.end(), entries, known->second);
        return {shelf, known->second};
      }
    }
    if (size_ >= most_) make_room();
    shelf = shelves_.try_emplace(name).first;
    Entries& entries = shelf->second.entries;
    const auto place = entries.insert(entries.end(), Entry{number, Item{}});
    shelf->second.places[number] = place;
    ++size_;
    return {shelf, place};
  }

  // It looks at every shelf, but only when all room is taken and something new comes.
  void make_room() {
    ShelfPlace fullest = shelves_.begin();
    for (ShelfPlace it = shelves_.begin(); it != shelves_.end(); ++it)
      if (it->second.entries.size() > fullest->second.entries.size()) fullest = it;
    if (fullest == shelves_.end()) return;
    drop_oldest(fullest->second);
    if (fullest->second.entries.empty()) shelves_.erase(fullest);
  }

  void drop_oldest(Shelf& shelf) {
    const Entry& oldest = shelf.entries.front();
    if (oldest.change) changed_.erase(*oldest.change);
    shelf.places.erase(oldest.number);
    shelf.entries.pop_front();
    --size_;
  }

  const size_t most_;
  size_t size_ = 0;
  std::map<Name, Shelf> shelves_;  ///< none is empty
  Changes changed_;
};

}  // namespace quern::daemon
