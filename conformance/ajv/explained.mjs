// Where Ajv and we differ, who is right by the standard, and why.

const text = (pair) => JSON.stringify(pair.schema);

export const explanations = [];
