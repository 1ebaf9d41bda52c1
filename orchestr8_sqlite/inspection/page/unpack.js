// The inverse of inspection/packing.py, which says what the packed lists mean.

/** Return the value that a text of JSON packs. */
function unpack(whole) {
  const { texts } = whole;
  const value = (packed) => {
    if (Array.isArray(packed)) return list(packed);
    if (packed === null || typeof packed !== "object") return packed;
    return Object.fromEntries(Object.entries(packed).map(([key, one]) => [key, value(one)]));
  };
  const list = ([form, ...rest]) => FORMS[form](rest);
  const FORMS = [
    (items) => items.map(value),
    (places) => places.map((place) => texts[place]),
    (parts) => {
      const names = parts.filter((_, place) => place % 2 === 0);
      return rows(parts.filter((_, place) => place % 2 === 1).map(list), (row) =>
        Object.fromEntries(row.map((one, place) => [names[place], one])),
      );
    },
    ([, ...columns]) => rows(columns.map(list), (row) => row),
    ([lengths, packed]) => {
      const items = list(packed);
      let from = 0;
      return lengths.map((length) => items.slice(from, (from += length)));
    },
  ];
  return value(whole.value);
}

/** Return what `make` makes of each row of some columns. */
function rows(columns, make) {
  return columns[0].map((_, place) => make(columns.map((column) => column[place])));
}
