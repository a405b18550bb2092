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
