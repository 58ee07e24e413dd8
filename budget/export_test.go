package budget

// LongestToken is for the test that compares it with the vocabulary.
const LongestToken = longestToken

// Compact is for the test that looks at the memory which a kept value holds.
var Compact = clip
