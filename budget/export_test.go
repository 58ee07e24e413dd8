package budget

// LongestToken is exported for the test that compares it with the vocabulary.
const LongestToken = longestToken

// Compact is exported for the test of the memory that a stored value retains.
var Compact = clip
