import type { ReactNode } from "react";
import css from "./ui.module.css";

export type Column<T> = {
  head: string;
  cell: (item: T) => ReactNode;
  /** On a phone the cell has the card's full width and no label. */
  wide?: boolean;
  right?: boolean;
  /** Its lines are not broken. */
  tight?: boolean;
};

/**
 * A table, and cards at phone width. The roles are spelled out because a table whose rows are laid out otherwise
 * loses them in some browsers. A cell that gives null is left out of the card.
 */
export function Table<T>({
  label,
  columns,
  items,
  id,
}: {
  label: string;
  columns: Column<T>[];
  items: T[];
  id: (item: T) => string | number;
}) {
  return (
    <div className={css.tableBox}>
      {/* biome-ignore-start lint/a11y/noRedundantRoles: see above */}
      <table className={css.table} aria-label={label} role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((c) => (
              <th key={c.head} role="columnheader" scope="col" data-right={c.right}>
                {c.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {items.map((item) => (
            <tr key={id(item)} role="row">
              {columns.map((c) => {
                const content = c.cell(item);
                return (
                  <td
                    key={c.head}
                    role="cell"
                    data-label={c.head}
                    data-wide={c.wide}
                    data-right={c.right}
                    data-tight={c.tight}
                    data-empty={content === null}
                  >
                    <div>{content}</div>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {/* biome-ignore-end lint/a11y/noRedundantRoles: see above */}
    </div>
  );
}
