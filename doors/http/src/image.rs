//! Images: NTNDArrays as PNG and JPEG.

use jpeg_encoder::{ColorType, Encoder};
use pvwire_schema::types::{Array, Node, NodeValue, ValueType};

/// Quality of JPEGs, from 1 to 100.
const QUALITY: u8 = 80;

/// Colours of a pixel in a colour image.
const COLOURS: usize = 3;

/// A value that can't be shown as an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It is another structure.
    #[error("the PV is not an image (NTNDArray)")]
    NoImage,
    /// Its elements are compressed.
    #[error("images compressed by {0:?} can't be converted: switch the compression off at the IOC")]
    Compressed(String),
    /// Its elements are neither 8 nor 16 bits long.
    #[error("elements of type {0:?} can't be converted: expected integers of 8 or 16 bits")]
    BadElements(ValueType),
    /// Its colour mode or its dimensions are unknown.
    #[error(
        "{0} dimensions with colour mode {1} can't be converted: expected mono, RGB1, RGB2 or RGB3"
    )]
    BadLayout(usize, i64),
    /// It has fewer elements than its dimensions say, or none.
    #[error("the image has {0} elements, and its dimensions say {1}")]
    BadSize(usize, usize),
    /// A side is too long for JPEG.
    #[error("{0} pixels are too many for a side of a JPEG: ask for the PNG")]
    TooLong(usize),
    /// The encoder failed.
    #[error("the image can't be encoded: {0}")]
    Png(#[from] png::EncodingError),
    /// The encoder failed.
    #[error("the image can't be encoded: {0}")]
    Jpeg(#[from] jpeg_encoder::EncodingError),
}

/// An image: rows from the top, pixels from the left, colours next to each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    is_colour: bool,
    samples: Samples,
}

#[derive(Debug, PartialEq, Eq)]
enum Samples {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

/// Distances of elements in an NTNDArray: from pixel to pixel, row to row, colour to colour.
struct Layout {
    width: usize,
    height: usize,
    steps: [usize; 3],
    is_colour: bool,
}

impl Image {
    /// The image in an NTNDArray.
    ///
    /// # Errors
    /// When it isn't one that can be shown.
    pub fn of(node: &Node) -> Result<Self, ImageError> {
        let fields = fields(node).ok_or(ImageError::NoImage)?;
        if !node.type_id.starts_with("epics:nt/NTNDArray:") {
            return Err(ImageError::NoImage);
        }
        let codec = find(fields, "codec").and_then(|codec| find(self::fields(codec)?, "name"));
        if let Some(NodeValue::Text(name)) = codec.map(|name| &name.value)
            && !name.is_empty()
        {
            return Err(ImageError::Compressed(name.clone()));
        }
        let elements = find(fields, "value")
            .and_then(elements)
            .ok_or(ImageError::NoImage)?;
        let layout = layout(fields)?;
        let colours = if layout.is_colour { COLOURS } else { 1 };
        let count = [layout.width, layout.height, colours]
            .into_iter()
            .try_fold(1, usize::checked_mul);
        let count = count.unwrap_or(usize::MAX);
        let size = elements.value_type.element_bytes().unwrap_or(1);
        let held = (elements.count as usize).min(elements.data.len() / size);
        if count == 0 || held < count {
            return Err(ImageError::BadSize(held, count));
        }
        let bytes = &elements.data;
        let words = || bytes.as_chunks::<2>().0;
        let samples = match elements.value_type {
            ValueType::UInt8 => Samples::Bytes(layout.arranged(|at| bytes[at])),
            // Signed elements are shifted, so that the smallest is black.
            ValueType::Int8 => Samples::Bytes(layout.arranged(|at| bytes[at] ^ 0x80)),
            ValueType::UInt16 => {
                Samples::Words(layout.arranged(|at| u16::from_le_bytes(words()[at])))
            }
            ValueType::Int16 => {
                Samples::Words(layout.arranged(|at| u16::from_le_bytes(words()[at]) ^ 0x8000))
            }
            other => return Err(ImageError::BadElements(other)),
        };
        Ok(Self {
            width: layout.width,
            height: layout.height,
            is_colour: layout.is_colour,
            samples,
        })
    }

    /// The bytes of a value's elements; 0 if it is no image.
    #[must_use]
    pub fn element_bytes(node: &Node) -> usize {
        let elements = fields(node)
            .and_then(|fields| find(fields, "value"))
            .and_then(elements);
        elements.map_or(0, |elements| elements.data.len())
    }

    /// The image as PNG with all its bits.
    ///
    /// # Errors
    /// When the encoder fails.
    pub fn png(&self) -> Result<Vec<u8>, ImageError> {
        let mut out = Vec::new();
        let (width, height) = (self.width as u32, self.height as u32);
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(if self.is_colour {
            png::ColorType::Rgb
        } else {
            png::ColorType::Grayscale
        });
        encoder.set_compression(png::Compression::Fast);
        let bytes = match &self.samples {
            Samples::Bytes(bytes) => {
                encoder.set_depth(png::BitDepth::Eight);
                encoder.write_header()?.write_image_data(bytes)?;
                return Ok(out);
            }
            Samples::Words(words) => words
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect::<Vec<_>>(),
        };
        encoder.set_depth(png::BitDepth::Sixteen);
        encoder.write_header()?.write_image_data(&bytes)?;
        Ok(out)
    }

    /// The image as JPEG, dark and crossed out: the PV's server can't be reached or doesn't respond, so that it may
    /// show something else by now.
    ///
    /// # Errors
    /// When a side is longer than 65,535 pixels.
    pub fn outdated_jpeg(&self) -> Result<Vec<u8>, ImageError> {
        let mut bytes = match &self.samples {
            Samples::Bytes(bytes) => bytes.clone(),
            Samples::Words(words) => scaled_to_bytes(words),
        };
        for byte in &mut bytes {
            *byte /= 3;
        }
        let colours = if self.is_colour { COLOURS } else { 1 };
        let (width, height) = (self.width, self.height);
        // The lines are a fiftieth of the image wide.
        let half = (width / 100).max(1);
        for y in 0..height {
            let middle = y * width / height;
            for middle in [middle, width - 1 - middle] {
                let line = middle.saturating_sub(half)..(middle + half + 1).min(width);
                let row = y * width;
                bytes[(row + line.start) * colours..(row + line.end) * colours].fill(u8::MAX);
            }
        }
        let samples = Samples::Bytes(bytes);
        Self { samples, ..*self }.jpeg()
    }

    /// The image as JPEG. Samples of 16 bits are scaled, so that the darkest is black and the brightest is white.
    ///
    /// # Errors
    /// When a side is longer than 65,535 pixels.
    pub fn jpeg(&self) -> Result<Vec<u8>, ImageError> {
        let side = |pixels: usize| u16::try_from(pixels).map_err(|_| ImageError::TooLong(pixels));
        let (width, height) = (side(self.width)?, side(self.height)?);
        let scaled;
        let bytes = match &self.samples {
            Samples::Bytes(bytes) => bytes,
            Samples::Words(words) => {
                scaled = scaled_to_bytes(words);
                &scaled
            }
        };
        let mut out = Vec::new();
        let colours = if self.is_colour {
            ColorType::Rgb
        } else {
            ColorType::Luma
        };
        Encoder::new(&mut out, QUALITY).encode(bytes, width, height, colours)?;
        Ok(out)
    }
}

fn scaled_to_bytes(words: &[u16]) -> Vec<u8> {
    let low = words.iter().copied().min().unwrap_or(0);
    let high = words.iter().copied().max().unwrap_or(0);
    let span = u32::from(high - low).max(1);
    let scaled = words
        .iter()
        .map(|word| (u32::from(word - low) * 255 / span) as u8);
    scaled.collect()
}

impl Layout {
    /// The elements in the order of rows, pixels and colours.
    fn arranged<T>(&self, element: impl Fn(usize) -> T) -> Vec<T> {
        let colours = if self.is_colour { COLOURS } else { 1 };
        let [pixel, row, colour] = self.steps;
        let mut out = Vec::with_capacity(self.width * self.height * colours);
        for y in 0..self.height {
            for x in 0..self.width {
                out.extend((0..colours).map(|c| element(y * row + x * pixel + c * colour)));
            }
        }
        out
    }
}

fn fields(node: &Node) -> Option<&[Node]> {
    match &node.value {
        NodeValue::Structure(fields) => Some(fields),
        NodeValue::Any(Some(held)) => fields(held),
        _ => None,
    }
}

fn find<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
    nodes.iter().find(|node| node.name == name)
}

fn elements(node: &Node) -> Option<&Array> {
    match &node.value {
        NodeValue::Array(array) => Some(array),
        NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => elements(held),
        _ => None,
    }
}

fn integer(node: &Node) -> Option<i64> {
    match &node.value {
        NodeValue::Number(_, number) => Some(*number as i64),
        NodeValue::Int64(number) => Some(*number),
        NodeValue::UInt64(number) => i64::try_from(*number).ok(),
        NodeValue::Any(Some(held)) => integer(held),
        _ => None,
    }
}

fn list<'a>(fields: &'a [Node], name: &str) -> &'a [Node] {
    match find(fields, name).map(|node| &node.value) {
        Some(NodeValue::StructureArray(list)) => list,
        _ => &[],
    }
}

/// The attribute that says how colours are arranged.
fn colour_mode(image: &[Node]) -> Option<i64> {
    let is_mode = |attribute: &&Node| {
        let name = fields(attribute).and_then(|fields| find(fields, "name"));
        name.is_some_and(|name| name.value == NodeValue::Text("ColorMode".to_owned()))
    };
    let attribute = list(image, "attribute").iter().find(is_mode)?;
    integer(find(fields(attribute)?, "value")?)
}

fn layout(image: &[Node]) -> Result<Layout, ImageError> {
    let size = |dimension: &Node| {
        let size = find(fields(dimension)?, "size").and_then(integer)?;
        usize::try_from(size).ok()
    };
    let sizes: Option<Vec<usize>> = list(image, "dimension").iter().map(size).collect();
    let sizes = sizes.unwrap_or_default();
    let mode = colour_mode(image);
    // Without the attribute the dimension of three elements is that of the colours.
    let of_colours = |at: usize| sizes.get(at) == Some(&COLOURS);
    let guessed = || (0..3).find(|at| of_colours(*at)).map(|at| at as i64 + 2);
    let is_deep = sizes.len() == 3;
    match (&sizes[..], mode.or_else(|| is_deep.then(guessed).flatten())) {
        ([width, height], None | Some(0)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [1, *width, 0],
            is_colour: false,
        }),
        ([COLOURS, width, height], Some(2)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [COLOURS, COLOURS.saturating_mul(*width), 1],
            is_colour: true,
        }),
        ([width, COLOURS, height], Some(3)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [1, COLOURS.saturating_mul(*width), *width],
            is_colour: true,
        }),
        ([width, height, COLOURS], Some(4)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [1, *width, width.saturating_mul(*height)],
            is_colour: true,
        }),
        _ => Err(ImageError::BadLayout(sizes.len(), mode.unwrap_or(-1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, value: NodeValue) -> Node {
        Node {
            name: name.to_owned(),
            type_id: String::new(),
            value,
        }
    }

    fn text(name: &str, text: &str) -> Node {
        node(name, NodeValue::Text(text.to_owned()))
    }

    fn number(name: &str, number: usize) -> Node {
        node(name, NodeValue::Number(ValueType::Int32, number as f64))
    }

    fn structure(name: &str, fields: Vec<Node>) -> Node {
        node(name, NodeValue::Structure(fields))
    }

    fn nd_array(value_type: ValueType, data: &[u8], sizes: &[usize], mode: Option<usize>) -> Node {
        let count = data.len() / value_type.element_bytes().unwrap();
        let array = Array {
            value_type,
            count: count as u32,
            data: data.to_vec().into(),
        };
        let held = node("arrayValue", NodeValue::Array(array));
        let dimensions = sizes
            .iter()
            .map(|size| structure("", vec![number("size", *size)]));
        let attributes = mode.iter().map(|mode| {
            let value = NodeValue::Any(Some(Box::new(number("", *mode))));
            structure("", vec![text("name", "ColorMode"), node("value", value)])
        });
        let fields = vec![
            node("value", NodeValue::Union(Some(Box::new(held)))),
            structure("codec", vec![text("name", "")]),
            node("dimension", NodeValue::StructureArray(dimensions.collect())),
            node("attribute", NodeValue::StructureArray(attributes.collect())),
        ];
        Node {
            type_id: "epics:nt/NTNDArray:1.0".to_owned(),
            ..structure("", fields)
        }
    }

    /// Width, height, bits and samples of a PNG.
    fn read(bytes: &[u8]) -> (u32, u32, png::BitDepth, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut samples = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut samples).unwrap();
        (info.width, info.height, info.bit_depth, samples)
    }

    #[test]
    fn each_arrangement_of_colours_is_the_same_image() {
        // Two pixels side by side.
        let pixels = [1, 2, 3, 4, 5, 6];
        let rows = [1, 4, 2, 5, 3, 6];
        for (data, sizes, mode) in [
            (pixels, [3, 2, 1], Some(2)),
            (rows, [2, 3, 1], Some(3)),
            (rows, [2, 1, 3], Some(4)),
            (pixels, [3, 2, 1], None),
            (rows, [2, 3, 1], None),
            (rows, [2, 1, 3], None),
        ] {
            let image = Image::of(&nd_array(ValueType::UInt8, &data, &sizes, mode)).unwrap();
            let png = read(&image.png().unwrap());
            assert_eq!(
                png,
                (2, 1, png::BitDepth::Eight, pixels.to_vec()),
                "{sizes:?} {mode:?}"
            );
            assert!(image.jpeg().unwrap().starts_with(&[0xff, 0xd8]));
        }
    }

    #[test]
    fn sixteen_bits_are_kept_in_png_and_scaled_in_jpeg() {
        let words = [1000_u16, 1255, 1510, 2020];
        let data = words.map(u16::to_le_bytes).concat();
        let image = Image::of(&nd_array(ValueType::UInt16, &data, &[4, 1], Some(0))).unwrap();
        let expected = words.map(u16::to_be_bytes).concat();
        assert_eq!(
            read(&image.png().unwrap()),
            (4, 1, png::BitDepth::Sixteen, expected)
        );
        assert_eq!(scaled_to_bytes(&words), [0, 63, 127, 255]);
        let signed = [-2_i16, 1].map(i16::to_le_bytes).concat();
        let image = Image::of(&nd_array(ValueType::Int16, &signed, &[2, 1], None)).unwrap();
        assert_eq!(image.samples, Samples::Words(vec![0x7ffe, 0x8001]));
    }

    #[test]
    fn value_that_is_no_image_says_what_was_expected() {
        let of = |value_type, data: &[u8], sizes: &[usize], mode| {
            Image::of(&nd_array(value_type, data, sizes, mode))
                .unwrap_err()
                .to_string()
        };
        for (error, expected) in [
            (of(ValueType::UInt8, &[0; 5], &[3, 2], None), "5 elements"),
            (of(ValueType::UInt8, &[], &[0, 0], None), "0 elements"),
            (
                of(ValueType::UInt8, &[0; 8], &[usize::MAX, 2], None),
                "8 elements",
            ),
            (of(ValueType::UInt8, &[0; 8], &[8], None), "1 dimensions"),
            (
                of(ValueType::UInt8, &[0; 8], &[4, 2], Some(1)),
                "colour mode 1",
            ),
            (of(ValueType::Float64, &[0; 8], &[1, 1], None), "Float64"),
        ] {
            assert!(error.contains(expected), "{error}");
        }
        let other = structure("", Vec::new());
        assert!(matches!(Image::of(&other), Err(ImageError::NoImage)));
    }

    #[test]
    fn outdated_image_is_dark_and_crossed_out() {
        let count = 40 * 30;
        let grey = nd_array(ValueType::UInt8, &vec![90; count], &[40, 30], None);
        let words = vec![u8::MAX; 2 * count];
        let words = nd_array(ValueType::UInt16, &words, &[40, 30], None);
        let colours = nd_array(ValueType::UInt8, &vec![90; 3 * count], &[3, 40, 30], None);
        let narrow = nd_array(ValueType::UInt8, &[90; 5], &[1, 5], None);
        for node in [grey, words, colours, narrow] {
            let image = Image::of(&node).unwrap();
            let outdated = image.outdated_jpeg().unwrap();
            assert!(outdated.starts_with(&[0xff, 0xd8]));
            assert!(outdated != image.jpeg().unwrap());
            assert_eq!(Image::of(&node).unwrap(), image, "the image itself stays");
        }
    }
}
