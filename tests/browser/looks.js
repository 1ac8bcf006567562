// What a person would call broken on a page, each as a list of short descriptions; `looks()` gives all of them.
const shows = element => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
const described = element => `${element.tagName.toLowerCase()}.${element.className?.baseVal ?? element.className}`;
const drawn = ".math, .MathJax, .MathJax_Display, svg, script, style, noscript, .visually-hidden, .sr-only";

const texts = () => {
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        if (node.data.trim() && !node.parentElement.closest(drawn) && shows(node.parentElement)) found.push(node);
    return found;
};

const boxes = (node, start = 0, end = node.length) => {
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, end);
    return [...range.getClientRects()];
};

// What is left of a box inside of all that cuts it off: a frame that scrolls, or a side bar.
const within = (box, element) => {
    let { left, right, top, bottom } = box;
    for (let above = element; above && above !== document.body; above = above.parentElement) {
        if (getComputedStyle(above).overflow === "visible") continue;
        const frame = above.getBoundingClientRect();
        left = Math.max(left, frame.left), right = Math.min(right, frame.right);
        top = Math.max(top, frame.top), bottom = Math.min(bottom, frame.bottom);
    }
    return { left, right, top, bottom, width: right - left, height: bottom - top };
};

const rawDollars = () => texts().filter(node => !node.parentElement.closest("pre, code"))
    .map(node => node.data).filter(text => /\$[^$]*[\\_^{}=][^$]*\$|\$\$/.test(text));

const brokenPictures = () => [...document.images].filter(image => image.complete && !image.naturalWidth)
    .map(image => image.src.slice(0, 120));

const brokenNumbers = () => texts().filter(node => node.parentElement.closest("pre, table"))
    .flatMap(node => [...node.data.matchAll(/[-−+]?\d+(?:[.,]\d+)+(?:e[-+]?\d+)?|\d\d+/g)]
        .filter(({ 0: number, index }) =>
            new Set(boxes(node, index, index + number.length).map(box => Math.round(box.top))).size > 1)
        .map(({ 0: number }) => `${number} in ${node.data.slice(0, 60)}`));

// A frame that hides what is too long for it, and does not scroll.
const clippedTexts = () => texts().flatMap(node => {
    const whole = boxes(node).find(box => {
        const left = within(box, node.parentElement), cut = box.width - left.width > 2 || box.height - left.height > 4;
        return cut && left.width > 0 && left.height > 0;
    });
    if (!whole) return [];
    for (let above = node.parentElement; above; above = above.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(above);
        if ([overflowX, overflowY].some(each => ["auto", "scroll"].includes(each))) return [];
    }
    return [`${described(node.parentElement)}: ${node.data.slice(0, 60)}`];
});

const overlappingTexts = () => {
    const all = texts().flatMap(node => boxes(node).map(box => ({ node, ...within(box, node.parentElement) })))
        .filter(({ width, height }) => width > 2 && height > 4).sort((one, other) => one.top - other.top);
    const found = [];
    all.forEach((one, i) => {
        for (let j = i + 1; j < all.length && all[j].top < one.bottom; j++) {
            const other = all[j];
            if (other.node === one.node || one.node.parentElement.closest("header, .bd-header, .bd-sidebar") !==
                other.node.parentElement.closest("header, .bd-header, .bd-sidebar")) continue;
            const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
            const high = Math.min(one.bottom, other.bottom) - other.top;
            if (wide > 3 && high > 0.4 * Math.min(one.height, other.height))
                found.push(`${one.node.data.slice(0, 40)} / ${other.node.data.slice(0, 40)}`);
        }
    });
    return found;
};

const looks = () => ({ rawDollars: rawDollars(), brokenPictures: brokenPictures(), brokenNumbers: brokenNumbers(),
    clippedTexts: clippedTexts(), overlappingTexts: overlappingTexts() });
