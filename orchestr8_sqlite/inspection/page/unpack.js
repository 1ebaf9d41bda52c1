// The inverse of inspection/packing.py, which says what the number at the beginning of each list means.

function unpack({ texts, value }) {
  const rows = (columns, make) => columns[0].map((_, row) => make(columns.map((column) => column[row])));
  const kinds = [
    (items) => items.map(open),
    (places) => places.map((place) => (place < 0 ? null : texts[place])),
    (parts) => {
      const names = parts.filter((_, place) => place % 2 === 0);
      const columns = parts.filter((_, place) => place % 2 === 1).map(open);
      return rows(columns, (row) => Object.fromEntries(row.map((cell, place) => [names[place], cell])));
    },
    ([, ...columns]) => rows(columns.map(open), (row) => row),
    ([lengths, packed]) => {
      const items = open(packed);
      let end = 0;
      return lengths.map((length) => items.slice(end, (end += length)));
    },
  ];
  function open(packed) {
    if (Array.isArray(packed)) return kinds[packed[0]](packed.slice(1));
    if (packed === null || typeof packed !== "object") return packed;
    return Object.fromEntries(Object.entries(packed).map(([name, one]) => [name, open(one)]));
  }
  return open(value);
}
