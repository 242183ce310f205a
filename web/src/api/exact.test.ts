import { describe, expect, it } from "vitest";
import { exactJSON, jsonText } from "./exact";

describe("values of states", () => {
  it("keep whole numbers that JavaScript would round", () => {
    const text =
      '{"id":9223372036854775807,"list":[18446744073709551615,-9007199254740993,1,2.5],"s":"9223372036854775807"}';
    expect(jsonText(exactJSON(text))).toBe(text);
  });

  it("are read where digits stand in texts, fractions and exponents", () => {
    const text = '{"a":"1234567890123456789","b":"\\\\","c":0.5,"d":"x\\"1234567890123456789"}';
    expect(jsonText(exactJSON(text))).toBe(text);
    expect(exactJSON("[0.1234567890123456,1e-300,1234567890123456789.5]")).toEqual([
      0.1234567890123456, 1e-300, 1234567890123456800,
    ]);
  });

  it("are the JSON they were", () => {
    const text = '{"a":null,"b":[],"c":{},"d":"\\"x\\"\\n","e":true}';
    expect(jsonText(exactJSON(text))).toBe(text);
  });
});
